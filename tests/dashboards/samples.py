"""A sweep as a report takes it, small and made up, with every kind of trial in it."""

import math
from dataclasses import replace
from functools import cache

from dashboards.results import (
    Answer,
    Curve,
    LabelErrors,
    Roc,
    Spending,
    Sweep,
    Trial,
)
from trainables.attacks import strongest
from trainables.cards import card as cards
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp.accounting.choose import account

INJECTED = "<script>alert('x')</script> & \"quoted\""


def trial(trial_id, engine, ser, epsilon, *, axes=None, **fields):
    """A finished trial with intervals and one attack; `fields` are columns."""
    axes = axes or {}
    metrics = {
        "ser": ser,
        "ser_low": ser - 0.02,
        "ser_high": ser + 0.02,
        "validation_ser": ser + 0.001,
        "intent_accuracy": 0.9,
        "slot_f1": 0.85,
        "seconds_epoch": 2.0 if engine == "sgd" else 3.0,
        "mia_shadow_auc": 0.55,
        "mia_shadow_auc_low": 0.53,
        "mia_shadow_auc_high": 0.57,
        "mia_shadow_tpr_1pct": 0.013,
        "mia_shadow_tpr_1pct_low": 0.01,
        "mia_shadow_tpr_1pct_high": 0.02,
        "mia_shadow_tpr_01pct": 0.002,
        "mia_shadow_tpr_01pct_low_resolution": 1.0,
        "mia_shadow_advantage": 0.08,
        **fields.pop("metrics", {}),
    }
    best = strongest(metrics)
    metrics |= {} if best is None else best.figures()
    is_baseline = engine == "sgd"
    columns = {
        "name": trial_id,
        "engine": engine,
        "decay": "none",
        "status": "done",
        "baseline": is_baseline,
        "compared_with": None if is_baseline else "aaaa",
        "seconds_epoch_ratio": None if is_baseline else 1.5,
        "seconds_ratio": None if is_baseline else 1.5,
        "epochs_done": 3,
        "seconds": 4.0 if is_baseline else 6.0,
        "epsilon": epsilon,
        "epsilon_compared": epsilon,
        **metrics,
        **fields,
    }
    return Trial(id=trial_id, columns=columns, axes=axes)


def changed(trial, **columns):
    """The trial with other columns."""
    return replace(trial, columns={**trial.columns, **columns})


@cache
def card():
    """Of a trial with another epsilon than its mechanism's, in a sweep that has spent
    more.
    """
    config = parse({"engine": "dp_sgd", "training": {"expected_batch_size": 60}})
    mechanism = build(config, num_records=1200)
    made = cards.make(
        mechanism,
        account(mechanism),
        trial_id="eeee",
        corpus="atis",
        attacks=["lira", "loss_threshold"],
    )
    own = {"epsilon": 8.0, "guarantee": f"The weights are private {INJECTED}."}
    total = {"epsilon": "inf", "num_releases": 7, "delta": 1e-5, "accountant": "pld"}
    total["unaccounted"] = ["no noise (sgd)"]
    return cards.with_sweep(made.model_copy(update=own), total=total, refused="")


def sweep(**fields):
    """SGD, eDP-SGD with three decays, DP-SGD at two epsilons, one refused trial."""
    columns = {
        "name": "refused one",
        "engine": "edp_sgd",
        "status": "refused",
        "seconds": 0.0,
        "epsilon": 1e9,
        "reason": "epsilon 1e+09 exceeds the budget",
    }
    refused = Trial(id="ffff", columns=columns)
    trials = (
        trial("aaaa", "sgd", 0.10, math.inf),
        trial(
            *("bbbb", "edp_sgd", 0.15, 6e5),
            epsilon_paper=7.7e4,
            axes={"C": 0.5, "decay": "none"},
        ),
        trial("b2b2", "edp_sgd", 0.14, 6e7, epsilon_paper=7.7e6, name="edp, z0=0.001"),
        trial(
            *("cccc", "edp_sgd", 0.12, 2e6),
            epsilon_paper=2e5,
            decay="linear",
            axes={"decay": "linear:0.1"},
        ),
        trial("dddd", "edp_sgd", 0.13, 1e6, epsilon_paper=1e5, decay="exponential"),
        trial(
            "eeee",
            "dp_sgd",
            0.55,
            8.0,
            name=f"dp {INJECTED}",
            pareto_optimal=True,
            axes={"C": 1.0},
        ),
        trial("e2e2", "dp_sgd", 0.41, 50.0, pareto_optimal=True, axes={"C": 10.0}),
        refused,
    )
    defaults = {
        "name": "sample",
        "dataset": "atis",
        "model": "clc",
        "trials": trials,
        **{"epsilon_max": 8.0, "chosen": "eeee", "chosen_by": "validation_ser"},
        "answer": Answer(
            headline=f"at ε ≤ 8 use dp {INJECTED}: 55.0 errors in 100",
            below=("95 % interval 53.0 to 57.0", "5.5 times those of SGD"),
            compared_with=("aaaa",),
        ),
        "seconds": 40.0,
        "curves": (
            Curve(trial="aaaa", points=((1.0, 0.4), (2.0, 0.2), (3.0, 0.11))),
            Curve(trial="bbbb", points=((1.0, 0.5), (2.0, 0.3), (3.0, 0.16))),
            Curve(trial="eeee", points=((1.0, 0.8), (2.0, 0.6), (3.0, 0.56))),
        ),
        "roc": Roc(
            measured=(
                Curve(trial="eeee", points=((0.001, 0.001), (0.01, 0.02), (1.0, 1.0))),
                Curve(trial="aaaa", points=((0.001, 0.004), (0.01, 0.04), (1.0, 1.0))),
            ),
            attack="shadow",
            allows=((0.001, 0.03), (0.01, 0.25), (0.1, 0.7), (1.0, 1.0)),
            allowed_auc=0.881,
        ),
        "spending": Spending(
            points=((1.764e9, 2.0), (1.764e9 + 60, 8.0)), limit=20.0, delta=1e-5
        ),
        "labels": tuple(
            LabelErrors(
                label=name,
                num_records=number,
                figures={"eeee": (0.5, 0.4), "aaaa": (0.1, None)},
            )
            for name, number in (("flight", 600), ("airfare", 48))
        ),
        "description": f"A sample {INJECTED}",
        "created": "2026-11-21 07:00 UTC",
        "command": f"sweep run {'sample' * 20}.yaml",
        "git_commit": "0123abc",
        "versions": {"python": "3.11"},
        "space": f"name: sample # {INJECTED}\n",
        "config": "engine: dp_sgd\n",
        "card": card(),
        "delta": 1e-5,
        "axes": ("C", "decay"),
        "files": {"trials.csv": "trial\naaaa\n", "epochs.csv": "trial\naaaa\n"},
    }
    return Sweep(**{**defaults, **fields})

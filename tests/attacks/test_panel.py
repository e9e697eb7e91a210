import time
from collections import Counter
from typing import get_args

import numpy as np
import pytest

from tests.attacks._worlds import every_figure, knowledge, of_sweep, signals, world
from tests.refusals import refused
from trainables import catalogue
from trainables.attacks import Knowledge, valid_attacks
from trainables.attacks._panel import evaluation_rows, panel, record_scores
from trainables.config.sections import SplitMode
from trainables.figures import is_public

NAMES = [name for name in catalogue.names("attacks") if name != "one_run"]
FIGURES = (
    *("auc", "auc_low", "auc_high", "advantage", "balanced_accuracy"),
    *("tpr_1pct", "tpr_1pct_low", "tpr_1pct_high", "tpr_1pct_low_resolution"),
    *("tpr_01pct", "tpr_01pct_low_resolution"),
)


@pytest.mark.parametrize("mode", get_args(SplitMode))
def test_each_split_runs_what_it_allows(mode):
    found = every_figure(world(mode), knowledge())
    if mode in ("bernoulli", "paired"):
        found |= of_sweep([world(mode, seed=seed) for seed in range(5)])[0]
    ran = {name for name in catalogue.names("attacks") if f"mia_{name}_auc" in found}
    if "epsilon_lower_bound" in found:
        ran.add("one_run")
    without_relation = {"one_run"} if mode == "bernoulli" else set()
    assert ran == valid_attacks(mode) - without_relation
    assert all(np.isfinite(value) for value in found.values())


def test_every_figure_is_for_the_curator_only():
    found = every_figure(world("paired"), knowledge())
    found |= of_sweep([world("paired", seed=seed) for seed in range(5)])[0]
    assert not [name for name in found if is_public(name)]
    assert found.keys() >= {
        f"mia_{attack}_{figure}" for attack in NAMES for figure in FIGURES
    }
    for name in ("lower_bound", "estimate_fdp", "estimate_gdp", "estimate_cp"):
        assert found[f"epsilon_{name}"] >= 0


@pytest.mark.slow  # every attack on 80 worlds
def test_untrained_model_is_at_one_half():
    """A model that has seen nothing: at most 17 of 128 intervals miss, 5 of an attack's
    16.
    """
    misses = Counter()
    for seed in range(16):
        target = world(strength=0.0, seed=seed + 40)
        found = every_figure(target, knowledge())
        found |= of_sweep([target, *(world(seed=number) for number in range(1, 5))])[0]
        for name in NAMES:
            low, high = found[f"mia_{name}_auc_low"], found[f"mia_{name}_auc_high"]
            misses[name] += not low <= 0.5 <= high
    assert misses.total() <= 17
    assert max(misses.values()) <= 5


def test_fixed_splits_are_evaluated_on_equal_numbers():
    member = np.random.default_rng(0).random(900) < 0.2
    target = signals(member, mode="paper")
    rows = evaluation_rows(target)
    assert target.member[rows].sum() == (~target.member[rows]).sum() == member.sum()
    np.testing.assert_array_equal(rows, evaluation_rows(target))
    assert len(evaluation_rows(signals(member))) == 900


def test_wrong_combinations_are_refused_by_name():
    target = world("paper")
    for name in ("bavaria", "lira", "rmia", "calibrated", "one_run"):
        with refused(f"attack {name}, got data.split=paper"):
            record_scores(target, Knowledge(), attacks=[name])
    with refused(r"expected attacks to be one of .* got 'oracle'"):
        record_scores(target, Knowledge(), attacks=["oracle"])
    with refused("expected shadow for the attack shadow, got none"):
        record_scores(target, Knowledge(), attacks=["shadow"])
    assert panel(world(), {"one_run": world().psi}, delta=1e-5) == {}, (
        "shuffled coins of records"
    )


def test_panels_cost_little():
    """Everything on 5000 records with 8 references: seconds, where a trial trains for
    minutes.
    """
    trials = [world(n=5_000, seed=seed) for seed in range(9)]
    every_figure(world(), knowledge())  # imports
    started = time.process_time()
    every_figure(trials[0], knowledge(n=5_000))
    alone = time.process_time() - started
    of_sweep(trials)
    assert alone + (time.process_time() - started - alone) / 9 < 5

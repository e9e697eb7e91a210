"""A table of a user's corpus and a trial function of milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from sweep.reproduction import changes, description, run
from sweep.reproduction.description import Pair, Table
from tests.sweep import toy_trial
from tests.sweep.sweeps import TOY, settings_in, write_corpus
from tests.sweep.untracked import without_mlflow
from trainables import attacks, evidence
from trainables.config import TrialConfig
from trainables.metrics import membership
from trainables.metrics._counts import NAMES, from_table
from trainables.result import TrialResult
from trainables.seeding import generator

PAIR = Pair(corpus="mine", model="clc")
STOPPING = "tests.sweep.reproduction.small_table:stopping"
FAILING = "tests.sweep.reproduction.small_table:failing"
MEASURED = "tests.sweep.reproduction.small_table:measure"
_NUM_TESTED = 400
# By engine and decay: the share of wrong intents, and how far members score above others.
_OUTCOMES = {
    ("sgd", "none"): (0.10, 0.8),
    ("edp_sgd", "none"): (0.20, 0.1),
    ("edp_sgd", "linear"): (0.105, 0.75),
}


def small_table(folder: Path, **wanted: Any) -> Table:
    """Two decays with two points, three methods, two seeds."""
    document = {
        "base": {
            "privacy": {"delta": 1e-5},
            "training": {"epochs": 2, "expected_batch_size": 30, "num_workers": 2},
            "evaluation": {"attacks": []},
        },
        "seeds": 2,
        "models": {"clc": {"model": {"name": "clc"}, "training": {"learning_rate": 0.001}}},
        "corpora": {"mine": {"data": write_corpus(folder)}},
        "coarse": {"epochs": 1},
        "decays": {"none": [[1, 0.5], [2, 1.0]], "linear": [[1, 0.5, 0.1], [2, 1.0, 0.5]]},
        "methods": {
            "sgd": {"label": "SGD", "baseline": True, "set": {"engine": "sgd"}},
            "none": {"label": "flat", "decay": "none", "set": {"engine": "edp_sgd"}},
            "linear": {"label": "falling", "decay": "linear", "set": {"engine": "edp_sgd"}},
        },
        "leakage": {"seeds": 2, "set": {"data.split": "bernoulli"}},
        "resources": {"executor": "local"},
        "smoke": {
            **{"corpora": ["mine"], "models": ["clc"], "methods": ["sgd"], "points": 1},
            **{"seeds": 1, "coarse_epochs": 1, "leakage_seeds": 2},
        },
    }
    return changes.with_changes(description.parse(document), **wanted)


def reproduce(
    folder: Path,
    table: Table,
    *,
    function: str = TOY,
    leakage: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Run the table without MLflow; the sentences on its problems."""
    settings = settings_in(folder)
    with without_mlflow():
        return run.run_table(
            table,
            [PAIR],
            settings,
            leakage=leakage,
            execution=run.Execution(console=Console(quiet=True), quiet=True, function=function),
            write_files=partial(run.write, table, [PAIR], settings.home, folder / "out"),
            say=say,
        )


def stopping(config: TrialConfig, *, cache_dir: Path, **given: Any) -> TrialResult:
    """The toy trial, interrupted where the home has as many trials as a file in it says."""
    home = cache_dir.parent
    at = home / "stop_at"
    if at.exists() and len(list(home.glob("*/trials/*/result.json"))) == int(at.read_text()):
        at.unlink()
        raise KeyboardInterrupt
    return toy_trial.run(config, cache_dir=cache_dir, **given)


def failing(config: TrialConfig, **given: Any) -> TrialResult:
    """The toy trial, which fails at C = 2 with a decay."""
    privacy = config.privacy
    if privacy.max_grad_norm == 2 and privacy.noise_decay.kind == "linear":
        raise ValueError("it fails here")
    return toy_trial.run(config, **given)


def measure(config: TrialConfig, *, folder: Path, **given: Any) -> TrialResult:
    """The toy trial with test counts and attack scores that its engine and decay decide; the same
    records and the same luck for each method of a seed.
    """
    result = toy_trial.run(config, folder=folder, **given)
    decay = getattr(config.privacy, "noise_decay", None)
    error, gap = _OUTCOMES[config.engine, "none" if decay is None else decay.kind]
    luck = generator(config.training.seed, "measured")
    table = np.zeros((_NUM_TESTED, len(NAMES)), dtype=np.int64)
    wrong = luck.random(_NUM_TESTED) < error
    for name, column in (("utterances", 1), ("reference_intents", 1), ("intent_errors", wrong)):
        table[:, NAMES.index(name)] = column
    records = np.arange(_NUM_TESTED)
    evidence.write_counts(folder, records, from_table(table))
    member = records % 2 == 0
    noise = luck.normal(size=_NUM_TESTED)
    scores = {"shadow": gap * member / 2 + noise, "loss_threshold": gap * member + noise}
    evidence.write_scores(folder, scores)
    signals = attacks.Signals(
        records=records,
        member=member,
        features=np.full((_NUM_TESTED, 8), 0.5),
        log_confidence=-np.ones(_NUM_TESTED),
        pairs=np.full(_NUM_TESTED, -1),
        population=np.zeros(_NUM_TESTED, dtype=np.bool_),
        mode="paper",
        corpus="made",
    )
    attacks.write_signals(folder / "signals.npz", signals)
    found = {
        f"mia_{attack}_{name}": value
        for attack, each in scores.items()
        for name, value in membership.figures(each, member).items()
    }
    ser = float(wrong.mean())
    error_metrics = {"ser": ser, "ser_low": ser - 0.03, "ser_high": ser + 0.03}
    return replace(result, metrics={**result.metrics, **found, **error_metrics})

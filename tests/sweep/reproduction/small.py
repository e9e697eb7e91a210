"""A table of a user's corpus and a trial function of milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from sweep.reproduction import description, run
from sweep.reproduction.description import Pair, Table
from tests.sweep import toy_trial
from tests.sweep.sweeps import TOY, settings_in, write_corpus
from tests.sweep.untracked import without_mlflow
from trainables.config import TrialConfig
from trainables.result import TrialResult

PAIR = Pair(corpus="mine", model="clc")
STOPPING = "tests.sweep.reproduction.small:stopping"
FAILING = "tests.sweep.reproduction.small:failing"


def small_table(folder: Path, **changes: Any) -> Table:
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
    return description.changed(description.parse(document), **changes)


def reproduce(
    folder: Path, table: Table, *, function: str = TOY, say: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Run the table without MLflow; the sentences on its problems."""
    settings = settings_in(folder)
    with without_mlflow():
        return run.run_table(
            table,
            [PAIR],
            settings,
            leakage=True,
            execution=run.Execution(console=Console(quiet=True), quiet=True, function=function),
            output=folder / "out",
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

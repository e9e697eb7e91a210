"""Is a trial caught whose noise is missing? One is broken on purpose, on ATIS pairs.

    python benchmarks/noise_removed.py [--home DIR] [--epochs 30]

A DP-SGD trial that claims epsilon 0.5 trains with its noise taken out, beside SGD trials that serve
as references. The certified bound of its own records must exceed the claim, the sweep must say so.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from search_spaces import space as spaces
from sweep.planning.prepare import prepare_space
from sweep.results.tables.leakage import violations
from sweep.runtime import runner
from sweep.settings import from_environment
from trainables.engines import _private


def space(epochs: int) -> spaces.SearchSpace:
    """One private trial and four references, the model of `search_spaces/leakage.yaml`."""
    base = spaces.read("search_spaces/leakage.yaml").base
    base["data"]["split"] = "paired"
    base["training"]["epochs"] = epochs
    base["evaluation"] = {"attacks": ["loss_threshold", "blind", "one_run"]}
    sgd = {
        "name": "sgd",
        "baseline": True,
        "set": {"engine": "sgd"},
        "axes": {"training.seed": [0, 1, 2, 3]},
    }
    target = {"privacy.noise_multiplier": {"target_epsilon": 0.5}}
    broken = {"name": "dp, noise removed", "set": {"engine": "dp_sgd", **target}}
    return spaces.parse(
        {
            "name": "noise-removed",
            "base": base,
            "variants": [sgd, broken],
            "resources": {"executor": "local"},
        }
    )


def without_noise(target: Any, *, factor: float = 1.0, **_: Any) -> bool:
    """In place of `add_noise_`: everything but the noise; the optimizer steps by itself."""
    target.mul_(factor)
    return False


def main() -> None:
    """Run the sweep in this process and print what it says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, default=None)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    home = options.home or Path(tempfile.mkdtemp())
    settings = replace(
        from_environment(),
        home=home,
        cache_dir=home / "cache",
        tracking_uri=f"sqlite:///{home / 'mlflow.db'}",
    )
    with patch.object(_private, "add_noise_", without_noise):
        done = runner.start(prepare_space(space(options.epochs), settings=settings), settings)
    records = done.folder.records()
    for record in records:
        names = ("ser", "epsilon_lower_bound", "epsilon_replace_one", "mia_rmia_auc")
        print(record.plan.name, json.dumps({n: record.metrics.get(n) for n in names}))
    print("\n".join(violations(records)) or "no violation was found")


if __name__ == "__main__":
    main()

"""The best of ten trials of a search that starts from 20 known ones, and of one that
starts from nothing:

    SWEEP_HOME=$(mktemp -d) SWEEP_TRACKING=none python benchmarks/start_from.py

Private heads on frozen embeddings of a synthetic corpus, full batches, 20 steps; the
axes are learning rate and clip norm, over four and nearly three orders of magnitude. A
line of JSON for each of three seeds: validation SER of the best and of the mean trial.
"""

from __future__ import annotations

import json
from statistics import fmean
from typing import Any

import sweep

BASE: dict[str, Any] = {
    "engine": "dp_sgd",
    "data": {"name": "communication", "num_utterances": 3_000},
    "model": {"name": "features", "encoder": "dialogues"},
    "privacy": {"sampling": "full", "noise_multiplier": 4.0},
    "training": {"steps": 20, "optimizer": "momentum"},
    "evaluation": {"attacks": []},
}
AXES = {
    "training.learning_rate": {"range": {"low": 0.1, "high": 1000, "log": True}},
    "privacy.max_grad_norm": {"range": {"low": 0.01, "high": 5, "log": True}},
}


def errors(name: str, *, seed: int, **search: Any) -> list[float]:
    """Validation SER of each trial of a new sweep, in their order."""
    space = {
        "name": f"{name}-{seed}",
        "base": {**BASE, "training": {**BASE["training"], "seed": seed}},
        "axes": AXES,
        "search": {"seed": seed, **search},
        "resources": {"executor": "local"},
    }
    return list(map(float, sweep.run(space, quiet=True)["validation_ser"]))


def main() -> None:
    """Print a line for each seed."""
    for seed in range(3):
        known = errors("known", seed=seed, strategy="random", num_samples=20)
        tpe: dict[str, Any] = {"seed": seed, "strategy": "tpe", "num_samples": 10}
        found = {
            "from nothing": errors("nothing", **tpe),
            "from 20 known": errors("known-20", **tpe, start_from=[f"known-{seed}"]),
        }
        row: dict[str, Any] = {"seed": seed, "best known": min(known)}
        for name, each in found.items():
            row |= {f"best {name}": min(each), f"mean {name}": fmean(each)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

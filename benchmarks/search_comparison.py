"""Grid, random, TPE and two-objective TPE on one number of ATIS trials: best SER within an epsilon.

    SWEEP_DATA_DIR=... python benchmarks/search_comparison.py [--home DIR] [--seeds 1]

Runs `search_spaces/search.yaml` four times a seed, one trial at a time, and prints the best
validation SER (what a sweep chooses by) and its test SER among trials of epsilon <= 8 and <= 50.
A sweep that is there already is gone on with.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from search_spaces import space as spaces
from sweep import runner, select, store
from sweep.notebook import Sweep
from sweep.prepare import prepare_space
from sweep.settings import Settings, from_environment

LIMITS = (8, 50)
WAYS: dict[str, dict[str, Any]] = {
    "grid": {"strategy": "grid"},
    "random": {"strategy": "random"},
    "tpe": {"strategy": "tpe", "objectives": ["validation_ser"]},
    "tpe-pareto": {"strategy": "tpe", "objectives": ["validation_ser", "epsilon"]},
}


def run_one(
    name: str, search: dict[str, Any], *, trials: int, seed: int, settings: Settings
) -> Sweep:
    """The sweep of one way to search, run or finished."""
    if name in store.names(settings.home):
        folder = store.open_sweep(settings.home, name)
        return Sweep(runner.resume(folder, settings).folder)
    document = spaces.read("search").document()
    number = {} if search["strategy"] == "grid" else {"num_samples": trials, "seed": seed}
    resources = {**document["resources"], "slots": 1}
    document |= {"name": name, "search": {**search, **number}, "resources": resources}
    prepared = prepare_space(spaces.parse(document), settings=settings)
    return Sweep(
        runner.start(prepared, settings, command=["benchmarks/search_comparison.py"]).folder
    )


def main() -> None:
    """Print a table row for each way and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=Path("sweeps/search_comparison"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--trials", type=int, default=8)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    home = asked.home.absolute()
    settings = replace(
        from_environment(),
        home=home,
        cache_dir=home / "cache",
        tracking_uri=f"sqlite:///{home / 'mlflow.db'}",
    )
    print("| search | trials | best SER, epsilon <= 8 | test | best SER, epsilon <= 50 | test |")
    print("|---|---|---|---|---|---|", flush=True)
    for seed in range(asked.seeds):
        for way, search in WAYS.items():
            done = run_one(
                f"{way}-{seed}", search, trials=asked.trials, seed=seed, settings=settings
            )
            finished = [
                r for r in done.records if r.status in select.FINISHED and not r.plan.baseline
            ]
            cells = []
            for limit in LIMITS:
                within = [r for r in finished if (select.value(r, "epsilon") or 0) <= limit]
                if not within:
                    cells += ["-", "-"]
                    continue
                best = min(within, key=lambda r: select.value(r, "validation_ser") or 9.0)
                cells += [f"{select.value(best, name):.3f}" for name in ("validation_ser", "ser")]
            print(f"| {way}, seed {seed} | {len(finished)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

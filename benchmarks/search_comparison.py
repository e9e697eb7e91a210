"""Grid, random, TPE, GP and NSGA-II on one number of ATIS trials: best SER within an epsilon.

    SWEEP_DATA_DIR=... python benchmarks/search_comparison.py [--home DIR] [--seeds 3]
        [--trials 8] [--total 200]

Runs the DP-SGD variant of `search_spaces/search.yaml` once for each way to search and each seed,
one trial at a time in this process, and prints the best validation SER (what a sweep chooses by)
and its test SER among trials of epsilon <= 8 and <= 50; then each way's mean and range over the
seeds. The seed is that of the search and of the trials. With `--total` every sweep is kept within
it: adaptive ones by a privacy filter, the others by composition. A sweep that is there already is
gone on with.
"""

from __future__ import annotations

import argparse
import os
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import sweep
from search_spaces import space as spaces
from sweep.settings import Settings, from_environment

LIMITS = (8, 50)
WAYS: dict[str, dict[str, Any]] = {
    "grid": {"strategy": "grid"},
    "random": {"strategy": "random"},
    "tpe": {"strategy": "tpe", "objectives": ["validation_ser"]},
    "gp": {"strategy": "gp", "objectives": ["validation_ser"]},
    "tpe-pareto": {"strategy": "tpe", "objectives": ["validation_ser", "epsilon"]},
    "nsga2-pareto": {"strategy": "nsga2", "objectives": ["validation_ser", "epsilon"]},
}
NAMES = ("validation_ser", "ser")


def run_one(
    way: str, *, trials: int, seed: int, total: float | None, settings: Settings
) -> pd.DataFrame:
    """The trials of one way to search, run or finished."""
    name, search = f"{way}-{seed}", WAYS[way]
    document = spaces.read("search").document()
    number = {} if search["strategy"] == "grid" else {"num_samples": trials, "seed": seed}
    document |= {
        "name": name,
        "variants": [v for v in document["variants"] if not v.get("baseline")],
        "search": {**search, **number},
        "repeats": [seed],
        "budget": {} if total is None else {"total": total},
        "resources": {"workers": 1, "executor": "local"},
    }
    found = sweep.run(document, settings=settings, resume=True)
    return found[found["status"].isin(["done", "stopped"])]


def best_within(done: pd.DataFrame) -> list[float | None]:
    """Validation and test SER of the best trial of epsilon <= 8, then of that of <= 50."""
    found: list[float | None] = []
    for limit in LIMITS:
        within = done[done["epsilon"] <= limit].sort_values("validation_ser")
        found += [None, None] if within.empty else [float(within.iloc[0][n]) for n in NAMES]
    return found


def main() -> None:
    """Print a table row for each way and seed, then one for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=Path("sweeps/search_comparison"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--total", type=float, default=None, help="budget.total of every sweep")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    home = asked.home.absolute()
    settings = replace(
        from_environment(),
        home=home,
        cache_dir=home / "cache",
        tracking_uri=f"sqlite:///{home / 'mlflow.db'}",
    )
    print("| search | trials | epsilon <= 8: validation SER | test | <= 50: validation | test |")
    print("|---|---|---|---|---|---|", flush=True)
    rows: dict[str, list[list[float | None]]] = {}
    for seed in range(asked.seeds):
        for way in WAYS:
            done = run_one(
                way, trials=asked.trials, seed=seed, total=asked.total, settings=settings
            )
            cells = best_within(done)
            rows.setdefault(way, []).append(cells)
            shown = " | ".join("-" if cell is None else f"{cell:.3f}" for cell in cells)
            print(f"| {way}, seed {seed} | {len(done)} | {shown} |", flush=True)
    for way, found in rows.items():
        columns = [
            [cell for cell in column if cell is not None] for column in zip(*found, strict=True)
        ]
        shown = " | ".join(
            f"{statistics.fmean(c):.3f} ({min(c):.3f} to {max(c):.3f})" if c else "-"
            for c in columns
        )
        print(f"| {way}, mean (range) of {len(found)} seeds | | {shown} |", flush=True)


if __name__ == "__main__":
    main()

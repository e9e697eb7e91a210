"""Table 2 of Dupuy et al. 2021 (arXiv 2107.14586): the seconds of an epoch of each
engine.

    python benchmarks/table2.py                  # the stored rows; nothing runs
    python benchmarks/table2.py --run CSV [--data atis] [--model clc] [--workers 1 8]
        [--records 1000000]

SGD, eDP-SGD and DP-SGD take turns step by step in one process of one thread
(`bench.py`); an epoch is the mean step times the number of steps, no whole epoch runs.
N is the number of logical workers of that process. Factors are over SGD, with quartiles
of the ratios within a round, beside the paper's own (one machine with 8 GPUs). Models
are those of `table1.yaml`.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

HERE = Path(__file__).parent
TABLE = yaml.safe_load((HERE / "table1.yaml").read_text(encoding="utf-8"))
STORED = HERE.parent / "docs" / "measurements" / "table2.csv"


def measured(
    corpus: str, model: str, workers: int, options: Any
) -> list[dict[str, Any]]:
    """A row for each engine."""
    from bench import (
        OURS,
        Arena,
        Spec,
        ratios,
        rounds,
    )  # which takes longer than the table

    data, own = TABLE["corpora"][corpus]["data"], TABLE["models"][model]
    if options.records and "num_utterances" in data:
        data = {**data, "num_utterances": options.records}
    training = {**own["training"], "expected_batch_size": 64, "num_workers": workers}
    fields = {
        "data": data,
        "model": own["model"],
        "privacy": {"delta": 5e-4},
        "training": training,
    }
    spec = Spec(fields=fields, engines=OURS, repeats=options.steps, seconds=60.0)
    arena = Arena(spec)
    found = rounds(spec, arena)
    rows = []
    for engine in OURS:
        cpu, steps = found[engine], arena.steps_per_epoch
        row = {"corpus": corpus, "model": model, "workers": workers}
        row |= {"num_records": arena.num_records, "steps_per_epoch": steps}
        row |= {
            "engine": engine,
            "steps": len(cpu),
            "epoch_seconds": statistics.fmean(cpu) * steps,
        }
        names = ("factor_low", "factor", "factor_high")
        rows.append(row | dict(zip(names, ratios(cpu, found["sgd"]), strict=True)))
    return rows


def markdown(rows: pd.DataFrame) -> str:
    """A line for each corpus, model and N, with the paper's own figures."""
    paper = pd.read_csv(HERE / "paper" / "table2.csv").set_index(["data", "model"])
    heads = [
        "corpus",
        "model",
        "records",
        "N",
        "SGD, s an epoch",
        "eDP-SGD / SGD",
        "DP-SGD / SGD",
    ]
    heads += ["paper's SGD, s", "paper's eDP-SGD / SGD", "paper's DP-SGD / SGD"]
    lines = [heads, ["---"] * len(heads)]
    key = ["corpus", "model", "num_records", "workers"]
    groups: Any = rows.groupby(key, sort=False)
    for (corpus, model, records, workers), group in groups:
        of, theirs = group.set_index("engine"), paper.loc[(corpus, model)]
        line = [
            corpus,
            model,
            f"{records:,}",
            f"{workers}",
            f"{of['epoch_seconds']['sgd']:,.1f}",
        ]
        for engine in ("edp_sgd", "dp_sgd"):
            own = of.loc[engine]
            line.append(
                f"{own['factor']:.2f} ({own['factor_low']:.2f} to"
                f" {own['factor_high']:.2f})"
            )
        names = ("sgd_seconds_per_epoch", "edp_sgd_factor", "dp_sgd_factor")
        lines.append([*line, *(f"{theirs[name]:g}" for name in names)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measure, or print what is stored."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    corpora, models = list(TABLE["corpora"]), list(TABLE["models"])
    parser.add_argument(
        "--run", type=Path, metavar="CSV", help="measure, and write the rows there"
    )
    parser.add_argument("--data", nargs="+", choices=corpora, default=corpora)
    parser.add_argument("--model", nargs="+", choices=models, default=models)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--records", type=int, help="of each synthetic corpus")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.run is None:
        stored = pd.read_csv(STORED)
        chosen = stored["corpus"].isin(options.data) & stored["model"].isin(
            options.model
        )
        print(markdown(stored[chosen & stored["workers"].isin(options.workers)]))
        return
    for corpus in options.data:
        for model in options.model:
            for workers in options.workers:
                rows += measured(corpus, model, workers, options)
                pd.DataFrame(rows).to_csv(options.run, index=False)
    print(markdown(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()

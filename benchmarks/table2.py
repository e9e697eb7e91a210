"""Table 2 of Dupuy et al. 2021 (arXiv 2107.14586): the seconds of an epoch of each engine.

    python benchmarks/table2.py [--data atis] [--model clc] [--workers 1 8] [--records 1000000]

SGD, eDP-SGD and DP-SGD take turns step by step in one process of one thread (`bench.py`); an epoch
is the mean step times the number of steps, no whole epoch runs. N is the number of logical workers
of that process. Factors are over SGD, with quartiles of the ratios within a round, beside the
paper's own (one machine with 8 GPUs). Models are those of `table1.yaml`.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import pandas as pd
import yaml
from bench import OURS, Arena, Spec, ratios, rounds

HERE = Path(__file__).parent


def main() -> None:
    """Print a row for each corpus, model and number of workers."""
    table = yaml.safe_load((HERE / "table1.yaml").read_text(encoding="utf-8"))
    paper = pd.read_csv(HERE / "paper" / "table2.csv").set_index(["data", "model"])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    corpora, models = list(table["corpora"]), list(table["models"])
    parser.add_argument("--data", nargs="+", choices=corpora, default=corpora)
    parser.add_argument("--model", nargs="+", choices=models, default=models)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--records", type=int, help="of each corpus that is made")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    heads = ["corpus", "model", "records", "N", "SGD, s an epoch", "eDP-SGD / SGD", "DP-SGD / SGD"]
    heads += ["paper's eDP-SGD / SGD", "paper's DP-SGD / SGD"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for corpus in options.data:
        data = table["corpora"][corpus]["data"]
        if options.records and "num_utterances" in data:
            data = {**data, "num_utterances": options.records}
        for model in options.model:
            own = table["models"][model]
            for workers in options.workers:
                spec = Spec(
                    fields={
                        "data": data,
                        "model": own["model"],
                        "privacy": {"delta": 5e-4},
                        "training": {
                            **own["training"],
                            "expected_batch_size": 64,
                            "num_workers": workers,
                        },
                    },
                    engines=OURS,
                    repeats=options.steps,
                    seconds=60.0,
                )
                arena = Arena(spec)
                found = rounds(spec, arena)
                epoch = statistics.fmean(found["sgd"].cpu) * arena.steps_per_epoch
                cells = [corpus, model, f"{arena.num_records:,}", str(workers), f"{epoch:,.1f}"]
                for engine in ("edp_sgd", "dp_sgd"):
                    low, middle, high = ratios(found[engine].cpu, found["sgd"].cpu)
                    cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
                theirs = paper.loc[(corpus, model)]
                cells += [f"{theirs[f'{engine}_factor']:g}" for engine in ("edp_sgd", "dp_sgd")]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

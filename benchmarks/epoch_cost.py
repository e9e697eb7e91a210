"""The cost of an epoch over the size of the corpus and over workers, from short measured pieces.

    python benchmarks/epoch_cost.py --model clc --sizes 100000 300000 1000000 --workers 1 2

For each size of the made `communication` corpus and each number of workers (processes on this
machine that add up their gradients through gloo) the engines take turns for a few steps on records
from the whole corpus; an epoch is that median times its number of steps. Linear means that the step
does not notice the size. With workers, `ms a step` is the slowest one's processor time and `wall`
the clock's; a batch of B is shared among them.
"""

from __future__ import annotations

import argparse
import statistics
import time

from bench import OURS, Arena, Spec, team_rounds


def main() -> None:
    """Print a row for each size, number of workers and engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["clc", "bert"], default="clc")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    print(
        f"{'utterances':>12}{'workers':>9}{'engine':>10}{'ms a step':>11}{'wall ms':>9}"
        f"{'hours an epoch':>16}{'us a record':>13}{'x SGD':>7}"
    )
    for size in options.sizes:
        for workers in options.workers:
            training = {
                "expected_batch_size": options.batch_size,
                "num_workers": workers,
            }
            spec = Spec(
                fields={
                    "data": {"name": "communication", "num_utterances": size},
                    "model": {"name": options.model},
                    "training": training,
                },
                engines=OURS,
                repeats=options.steps,
                workers=workers,
                seconds=60.0,
            )
            started = time.perf_counter()
            found, arena = team_rounds(spec), Arena(spec)
            base = statistics.median(found["sgd"].cpu)
            for engine in OURS:
                median = statistics.median(found[engine].cpu)
                wall = statistics.median(found[engine].wall)
                epoch = median * arena.steps_per_epoch
                print(
                    f"{size:>12,}{workers:>9}{engine:>10}{1e3 * median:>11.1f}{1e3 * wall:>9.1f}"
                    f"{epoch / 3600:>16.3f}{1e6 * epoch / arena.num_records:>13.1f}"
                    f"{median / base:>7.2f}",
                    flush=True,
                )
            print(f"{'':>12}({time.perf_counter() - started:.0f} s to measure)", flush=True)


if __name__ == "__main__":
    main()

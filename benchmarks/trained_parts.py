"""The cost of a private step by what of the encoder is trained.

    python benchmarks/trained_parts.py --data atis --batch-size 64 --steps 7

Kinds take turns, a step each, so that a busy machine is as busy for all; milliseconds of processor,
the median.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from sweep.settings import from_environment
from trainables.config import parse
from trainables.system.communication import Alone
from trainables.tasks._setup import Setup, prepare

KINDS: dict[str, dict[str, Any]] = {
    "bert, all": {"name": "bert"},
    "bert, lora of rank 8": {"name": "bert", "trained": "lora"},
    "bert, lora of the top 2": {"name": "bert", "trained": "lora", "top_layers": 2},
    "bert, biases": {"name": "bert", "trained": "biases"},
    "bert, biases of the top 1": {"name": "bert", "trained": "biases", "top_layers": 1},
    "bert, heads": {"name": "bert", "trained": "heads"},
    "clc, all": {"name": "clc"},
    "clc, lora of rank 8": {"name": "clc", "trained": "lora"},
    "clc, lora of the top 1": {"name": "clc", "trained": "lora", "top_layers": 1},
    "clc, biases": {"name": "clc", "trained": "biases"},
    "clc, biases of the top 1": {"name": "clc", "trained": "biases", "top_layers": 1},
    "clc, heads": {"name": "clc", "trained": "heads"},
}


def ready(model: dict[str, Any], options: argparse.Namespace) -> Setup:
    """A trial before its first step."""
    settings = from_environment()
    config = parse(
        {
            "engine": "dp_sgd",
            "data": {"name": options.data},
            "model": model,
            "training": {"steps": 1_000, "expected_batch_size": options.batch_size},
        }
    )
    return prepare(config, comm=Alone(), data_dir=settings.data_dir, cache_dir=settings.cache_dir)


def main() -> None:
    """Print a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="communication")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--model", choices=("bert", "clc"), help="only this one's kinds")
    options = parser.parse_args()
    setups = {
        name: ready(kind, options)
        for name, kind in KINDS.items()
        if name.startswith(options.model or "")
    }
    times: dict[str, list[float]] = {name: [] for name in setups}
    for step in range(options.steps + 1):
        for name, setup in setups.items():
            started = time.process_time()
            setup.engine.step(0, step)
            if step:  # the first one warms up
                times[name].append(time.process_time() - started)
    for name, setup in setups.items():
        median = 1e3 * statistics.median(times[name])
        print(f"{name:<28}{setup.engine.layout.size:>12,} weights{median:>9.0f} ms")


if __name__ == "__main__":
    main()

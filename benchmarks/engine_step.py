"""Where the time of one training step goes, engine by engine (`sweep bench` compares the whole).

    python benchmarks/engine_step.py --model clc --batch-size 32 --engine edp_sgd --engine dp_sgd

Under torch's profiler: processor milliseconds of a step by operation, the largest first. The noise
is drawn outside torch (AES and a compiled pass), so it is timed by itself and stands first.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from sweep.bench.contestants import OURS, Arena, Spec
from sweep.settings import from_environment
from trainables.privacy import noise

_WARM_UP = 3


def profiled(arena: Arena, engine: str, *, steps: int, rows: int) -> None:
    """Print the table of one engine."""
    step = arena.step_of(engine)
    drawn = 0.0
    right = noise.GaussianSource.add_

    def timed(self: noise.GaussianSource, target: torch.Tensor, **how: float) -> None:
        nonlocal drawn
        started = time.process_time()
        right(self, target, **how)
        drawn += time.process_time() - started

    for number in range(_WARM_UP):
        step(number)
    noise.GaussianSource.add_ = timed  # type: ignore[method-assign]  # undone below
    try:
        with profile(activities=[ProfilerActivity.CPU]) as found:
            for number in range(_WARM_UP, _WARM_UP + steps):
                step(number)
    finally:
        noise.GaussianSource.add_ = right  # type: ignore[method-assign]  # as it was
    events = sorted(found.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events) / 1e3 / steps
    calls = sum(event.count for event in events) / steps
    print(f"\n{engine}: {total:.1f} ms of torch operations a step, {calls:.0f} calls")
    print(f"{1e3 * drawn / steps:>9.2f} ms  clip factor and noise, {arena_size(arena, engine)}")
    for event in events[:rows]:
        own = event.self_cpu_time_total / 1e3 / steps
        print(f"{own:>9.2f} ms {event.count / steps:>8.1f} x  {event.key}")


def arena_size(arena: Arena, engine: str) -> str:
    """How many numbers the noise is added to, in words."""
    from trainables import catalogue

    config = arena.spec.config(engine)
    model = catalogue.entry("models", config.model.name).build(
        config.model, schema=arena.corpus.schema, seed=0
    )
    return f"{sum(p.numel() for p in model.parameters() if p.requires_grad):,} numbers"


def main() -> None:
    """Print a table for each engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["clc", "bert"], default="clc")
    parser.add_argument("--data", default="atis")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--engine", action="append", choices=OURS)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rows", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = from_environment()
    spec = Spec(
        fields={
            "data": {"name": options.data},
            "model": {"name": options.model},
            "training": {
                "expected_batch_size": options.batch_size,
                "num_workers": 1,
                "epochs": 1000,
            },
        },
        data_dir=Path(settings.data_dir),
        cache_dir=Path(settings.cache_dir),
    )
    arena = Arena(spec)
    print(f"{options.model}, {options.data}, batch {options.batch_size}, one thread")
    for engine in options.engine or OURS:
        profiled(arena, engine, steps=options.steps, rows=options.rows)


if __name__ == "__main__":
    main()

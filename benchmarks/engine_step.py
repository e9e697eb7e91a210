"""Where the time of one training step goes, engine by engine (`bench.py` compares the whole).

    python benchmarks/engine_step.py --model clc --batch-size 32

Processor milliseconds of a step by part, each without the parts inside it, medians; the engines
take turns. With `--operations`, torch's profiler on top: its times are the wall clock's, so on a
busy machine read the calls and the shares.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from bench import OURS, Arena, Spec, Step
from torch.profiler import ProfilerActivity, profile

from trainables.data.batches import Loader
from trainables.engines import _private
from trainables.layers import bookkeeping
from trainables.layers.char_cnn import CharCnnEntry
from trainables.layers.crf.layer import CrfEntry
from trainables.layers.embedding import EmbeddingEntry
from trainables.layers.layer_norm import LayerNormEntry
from trainables.layers.linear import LinearEntry
from trainables.layers.lstm import LstmEntry
from trainables.optimizers._optimizer import TorchOptimizer
from trainables.privacy.flat import FlatGradient

_ENTRIES = (CharCnnEntry, CrfEntry, EmbeddingEntry, LayerNormEntry, LinearEntry, LstmEntry)
_PARTS: tuple[tuple[Any, str, str], ...] = (
    (Loader, "batch", "records to tensors"),
    (bookkeeping, "_run", "forward, backward of activations"),
    *((entry, "squared_norms", "norms of records") for entry in _ENTRIES),
    *((entry, "add_gradient", "weight gradients") for entry in _ENTRIES),
    (FlatGradient, "norm", "norm of the flat gradient"),
    (FlatGradient, "group_norms", "norm of the flat gradient"),
    (_private, "add_noise_", "clip factor and noise"),
    (TorchOptimizer, "step", "Adam"),
)
_WARM_UP = 3


class Clock:
    """Processor time by part, exclusive: a part inside another is taken out of it."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._inside: list[float] = []  # of each open part, what its inner parts took

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Count the calls of `owner.name` under `part` from now on."""
        right: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            self._inside.append(0.0)
            started = time.process_time()
            try:
                return right(*arguments, **named)
            finally:
                took = time.process_time() - started
                self.spent[part] += took - self._inside.pop()
                if self._inside:
                    self._inside[-1] += took

        setattr(owner, name, timed)


def by_part(steps: dict[str, Step], *, repeats: int) -> None:
    """Print what each part of a step takes, a column for each engine."""
    clock = Clock()
    for owner, name, part in _PARTS:
        clock.wrap(owner, name, part)
    found: dict[str, dict[str, list[float]]] = {e: defaultdict(list) for e in steps}
    for number in range(_WARM_UP + repeats):
        for engine, step in steps.items():
            clock.spent.clear()
            started = time.process_time()
            step(number)
            total = time.process_time() - started
            if number >= _WARM_UP:
                parts = {
                    **clock.spent,
                    "all else": total - sum(clock.spent.values()),
                    "step": total,
                }
                for part, seconds in parts.items():
                    found[engine][part].append(seconds)
    print(f"{'ms of processor a step':<36}" + "".join(f"{engine:>10}" for engine in steps))
    names = dict.fromkeys(part for _, _, part in _PARTS)
    for part in (*names, "all else", "step"):
        cells = [
            f"{1e3 * statistics.median(own[part]):>10.1f}" if part in own else f"{'-':>10}"
            for own in found.values()
        ]
        print(f"{part:<36}" + "".join(cells))


def by_operation(engine: str, step: Step, *, first: int, repeats: int, rows: int) -> None:
    """Print torch's own table of one engine."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for number in range(first, first + repeats):
            step(number)
    events = sorted(found.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    print(f"\n{engine}: {sum(event.count for event in events) / repeats:.0f} calls a step")
    for event in events[:rows]:
        share = event.self_cpu_time_total / total
        print(f"{share:>8.1%} {event.count / repeats:>9.1f} x  {event.key}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["clc", "bert"], default="clc")
    parser.add_argument("--data", default="atis")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--operations", action="store_true")
    parser.add_argument("--rows", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    training = {"expected_batch_size": options.batch_size, "num_workers": 1}
    arena = Arena(
        Spec(
            fields={
                "data": {"name": options.data},
                "model": {"name": options.model},
                "training": training,
            },
        )
    )
    steps = {engine: arena.step_of(engine) for engine in OURS}
    print(f"{options.model}, {options.data}, batch {options.batch_size}, one thread")
    by_part(steps, repeats=options.steps)
    if options.operations:
        begin = _WARM_UP + options.steps
        for engine, step in steps.items():
            by_operation(engine, step, first=begin, repeats=3, rows=options.rows)


if __name__ == "__main__":
    main()

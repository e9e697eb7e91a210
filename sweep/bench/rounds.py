"""Times engines in turns of a step each, so that a slow machine affects all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from sweep.bench.contestants import Arena, SkippedEngine, Spec, Step
from sweep.bench.outcome import Found, Times

_WARM_UP = 2
_LEAST = 2  # measured steps of an engine, however slow it is
Say = Callable[[str], None]


def rounds(spec: Spec, *, say: Say, arena: Arena | None = None) -> Found:
    """Times of each engine on this process.

    Every process of a team makes the same calls; each gets the slowest one's times.
    """
    torch.set_num_threads(1)
    arena = arena or Arena(spec)
    steps: dict[str, Step] = {}
    skipped: dict[str, str] = {}
    for engine in spec.engines:
        try:
            steps[engine] = arena.step_of(engine)
        except SkippedEngine as reason:
            skipped[engine] = str(reason)
    cpu: dict[str, list[float]] = {engine: [] for engine in steps}
    wall: dict[str, list[float]] = {engine: [] for engine in steps}
    spent = dict.fromkeys(steps, 0.0)
    for number in range(_WARM_UP + spec.repeats):
        for engine, step in steps.items():
            tired = spent[engine] > spec.seconds
            if tired and (len(cpu[engine]) >= _LEAST or number == 1):
                continue  # a slow one's first step was warm-up enough
            say(f"step {number + 1} of {_WARM_UP + spec.repeats}: {engine}")
            started, began = time.process_time(), time.perf_counter()
            step(number)
            own = (time.process_time() - started, time.perf_counter() - began)
            slowest = [max(times) for times in zip(*arena.comm.gather(own), strict=True)]
            spent[engine] += slowest[0]
            if number >= _WARM_UP:
                cpu[engine].append(slowest[0])
                wall[engine].append(slowest[1])
    times = {e: Times(cpu=tuple(cpu[e]), wall=tuple(wall[e])) for e in steps}
    return Found(
        times=times,
        skipped=skipped,
        num_records=arena.num_records,
        steps_per_epoch=arena.steps_per_epoch,
    )

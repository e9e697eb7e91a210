"""Estimates the cost of one process of a trial from a few discarded steps.

A task splits a trial into pieces whose costs add up to the whole (`Probe`); `measure` runs a part
of each. Only seconds and bytes are returned, no weight, loss or draw.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.engines import Engine
from trainables.privacy.mechanism import Mechanism
from trainables.system.communication import Alone
from trainables.system.footprint import Footprint, peak_memory

_WARM_UP = 2
_STEPS = 8  # measured ones of each stage
_PATIENCE = 20.0  # seconds for the steps of one stage


@dataclass(frozen=True, kw_only=True)
class Stage:
    """`num_steps` similar steps of a trial; `take(i)` takes the i-th, in order from 0."""

    num_steps: int
    take: Callable[[int], object]

    @classmethod
    def of(cls, engine: Engine, mechanism: Mechanism) -> Stage:
        """All steps of an engine."""
        per_epoch = mechanism.steps_in(0)
        return cls(
            num_steps=mechanism.steps,
            take=lambda number: engine.step(number // per_epoch, number % per_epoch),
        )


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Work that stands for `times` as much of it."""

    times: float
    work: Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A trial of one process, ready for its first step: its steps, the work after each epoch and
    the work at the end.
    """

    stages: tuple[Stage, ...]
    after_epoch: Piece
    at_end: Piece


def measure(prepare: Callable[[], Probe]) -> Footprint:
    """The footprint of the trial that `prepare` sets up, on this process' threads.

    The process must do nothing else, because its whole memory is counted.
    """
    started = time.perf_counter()
    probe = prepare()
    prepared = time.perf_counter() - started
    per_stage = [_median_step(stage) for stage in probe.stages]
    total = sum(stage.num_steps for stage in probe.stages)
    weighted = sum(
        stage.num_steps * each for stage, each in zip(probe.stages, per_stage, strict=True)
    )
    return Footprint(
        seconds_prepare=prepared,
        seconds_step=weighted / max(1, total),
        seconds_after_epoch=_whole(probe.after_epoch),
        seconds_at_end=_whole(probe.at_end),
        memory_bytes=peak_memory(),
    )


def alone() -> Alone:
    """A single process on the machine's GPU where there is one, as trials are by default."""
    return Alone("cuda" if torch.cuda.is_available() else "cpu")


def spread(ids: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most `most` of `ids`, evenly over their order.

    >>> spread(np.arange(10), 3).tolist()
    [0, 4, 9]
    """
    if len(ids) <= most:
        return ids
    return ids[np.linspace(0, len(ids) - 1, most).astype(np.int64)]


def _median_step(stage: Stage) -> float:
    """Median seconds of a step, without the warm-up where more were measured. At least one step is
    measured; the time limit ends the rest.
    """
    times: list[float] = []
    for number in range(min(_WARM_UP + _STEPS, stage.num_steps)):
        times.append(_seconds(lambda: stage.take(number)))  # noqa: B023  called at once
        if sum(times) > _PATIENCE:
            break
    return statistics.median(times[_WARM_UP:] or times[-1:] or [0.0])


def _whole(piece: Piece) -> float:
    return piece.times * _seconds(piece.work) if piece.times > 0 else 0.0


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started

"""The measurements of `sweep bench`: steps in turns, then each engine's memory."""

from __future__ import annotations

from sweep.bench import children
from sweep.bench.contestants import BASELINE, Spec
from sweep.bench.outcome import Outcome, Row, row
from sweep.bench.rounds import Say, rounds


def measure(spec: Spec, *, say: Say, memory: bool = True) -> Outcome:
    """Time every engine of `spec`; with `memory` also run each alone and measure its peak.

    Raises: InvalidInput where the data or the sizes cannot be used.
    """
    if spec.workers == 1:
        found = rounds(spec, say=say)
    else:
        say(f"{spec.workers} workers take turns")
        found = children.team_rounds(spec)
    peaks: dict[str, float] = {}
    if memory:
        for engine in ("", *found.times):
            say(f"memory: {engine or 'idle'}")
            peaks[engine] = children.peak_memory(spec, engine)
    config = spec.config(BASELINE)
    return Outcome(
        data=config.data.name,
        model=config.model.name,
        batch_size=config.training.expected_batch_size,
        workers=spec.workers,
        num_records=found.num_records,
        steps_per_epoch=found.steps_per_epoch,
        idle_mib=peaks.get(""),
        rows=tuple(
            Row(engine=engine, skipped=found.skipped[engine])
            if engine in found.skipped
            else row(
                engine,
                found.times,
                steps_per_epoch=found.steps_per_epoch,
                peak_mib=peaks.get(engine),
            )
            for engine in spec.engines
        ),
    )

"""The cost of one process of a trial, in seconds and bytes."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """The cost of a process. `seconds_step` is the mean over stages of their median steps.

    `memory_bytes` is the highest resident size.
    """

    seconds_prepare: float
    seconds_step: float
    seconds_after_epoch: float
    seconds_at_end: float
    memory_bytes: int

    def seconds(self, *, steps: int, epochs: int) -> float:
        """Wall-clock of a trial alone.

        >>> Footprint(seconds_prepare=1, seconds_step=0.5, seconds_after_epoch=2, seconds_at_end=3,
        ...           memory_bytes=1).seconds(steps=10, epochs=2)
        13.0
        """
        steps_and_epochs = steps * self.seconds_step + epochs * self.seconds_after_epoch
        return self.seconds_prepare + steps_and_epochs + self.seconds_at_end


def peak_memory() -> int:
    """Bytes: the highest resident size of this process so far."""
    # Not `ru_maxrss` where avoidable, because a child inherits its parent's.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

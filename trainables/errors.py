"""Everything this project raises on purpose, in one tree.

    SweepError
    ├── InvalidInput      what a person wrote or pointed at is not usable (exit code 2)
    │   ├── InvalidData   a data file that is missing or damaged; the message never quotes its text
    │   └── CannotAnalyze an accountant was given a mechanism that it has no theorem for
    ├── TrialFailed       a trial broke while it ran (exit code 1)
    └── StorageFailed     a disk that is full, read-only or gone: no trial's fault (exit code 1)

Each message is one sentence that names the field, the value and what is allowed.
"""

from __future__ import annotations

_LONGEST = 2_000


class SweepError(Exception):
    """Root of the tree. A message that quotes more than people read is cut in its middle."""

    def __init__(self, message: str) -> None:
        if len(message) > _LONGEST:
            half = _LONGEST // 2
            message = f"{message[:half]} ... {message[-half:]}"
        super().__init__(message)


class InvalidInput(SweepError):
    """Input that is refused before anything starts."""


class InvalidData(InvalidInput):
    """A data file that cannot be used. States file and line, never the line's text."""


class CannotAnalyze(InvalidInput):
    """A mechanism outside an accountant's theorem. Names the accountant and the reason."""


class TrialFailed(SweepError):
    """A trial that broke while it ran; what it had reported is kept."""


class StorageFailed(SweepError):
    """A failed write to disk. It pauses the running trials and does not fail them."""

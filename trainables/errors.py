"""Everything this project raises on purpose, in one tree.

    SweepError
    ├── InvalidInput      an invalid argument, file or field (exit code 2)
    │   ├── InvalidData   a data file that is missing or damaged; the message never quotes its text
    │   └── CannotAnalyze a mechanism outside of an accountant's theorem
    ├── TrialFailed       a trial that failed while it ran (exit code 1)
    └── StorageFailed     a disk that is full, read-only or missing (exit code 1)

Each message is one sentence that names the field, the value and what is allowed.
"""

from __future__ import annotations

_LONGEST = 2_000


class SweepError(Exception):
    """Root of the tree. Long messages are shortened in their middle."""

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
    """A trial that failed while it ran; its reports are kept."""


class StorageFailed(SweepError):
    """A failed write to disk. It pauses the running trials and does not fail them."""

"""A file that one process holds alone, and others look at. The lock falls with its process."""

from __future__ import annotations

import fcntl
import random
import time
from pathlib import Path
from typing import IO

_PATIENCE_SECONDS = 5.0


def take(file: IO[str]) -> bool:
    """Hold the lock of an open file until it is closed; False where another process does.

    Who looks (`is_held`) shares the lock for an instant. That is waited for, and not taken for a
    process that holds it.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not _flock(file, fcntl.LOCK_EX):
        if not _flock(file, fcntl.LOCK_SH):
            return False  # nobody shares what one process has alone
        fcntl.flock(file, fcntl.LOCK_UN)
        if time.monotonic() > deadline:
            return False
        time.sleep(random.uniform(0.001, 0.02))  # two that try at once must not meet again
    return True


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of the file at `path`, which need not exist."""
    try:
        with path.open("r", encoding="utf-8") as file:
            return not _flock(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _flock(file: IO[str], lock: int) -> bool:
    try:
        fcntl.flock(file, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

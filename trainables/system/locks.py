"""Locks between processes, by files. The system releases a lock when its process ends."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_POLL_SECONDS = 0.005
# A check holds the lock for an instant, which another check waits for. Tries are counted, not
# seconds: a process that was not scheduled for a second has not waited.
_TRIES = 20


@contextmanager
def alone(path: Path, *, patience: float = -1) -> Iterator[None]:
    """Hold the lock file at `path` exclusively, among processes and threads; it is created where
    missing. `patience`: seconds to wait, negative: without limit.

    Raises: TimeoutError where another process holds it for longer; FileNotFoundError where its
    folder is missing.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(path.parent)
    with FileLock(path, timeout=patience, mode=0o600, poll_interval=_POLL_SECONDS):
        yield


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file at `path`. False where there is none, or where this
    process may not write it.
    """
    if not os.access(path, os.W_OK):
        return False
    for _ in range(_TRIES):
        try:
            with FileLock(path, timeout=0, mode=0o600):
                return False
        except Timeout:
            time.sleep(_POLL_SECONDS)
        except OSError:  # no file that a process could hold
            return False
    return True

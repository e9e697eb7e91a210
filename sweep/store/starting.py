"""Sweeps that are being started: a process plans or starts Ray and does not hold the sweep's lock
yet. It holds the lock of a file of the sweep's name in the home's `.starting`, so that it can be
stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sweep import interrupts
from sweep.store.sweeps import PATIENCE_SECONDS, running_already
from trainables.system import locks

FOLDER = ".starting"


@contextmanager
def starting(home: Path, name: str) -> Iterator[Callable[[], bool]]:
    """Mark this process as starting the sweep `name`, which it may run inside the block. A request
    to stop interrupts the block (`interrupts.stop_when`); in a library it must poll the yielded
    function. Errors of the home's disk are ignored here.

    Raises: InvalidInput where another process starts or runs it.
    """
    request = _request_for(home, name)
    with ExitStack() as held:
        try:
            request.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            held.enter_context(locks.alone(home / FOLDER / name, patience=PATIENCE_SECONDS))
            request.unlink(missing_ok=True)  # of a process that was killed
        except TimeoutError:
            raise running_already(name) from None
        except OSError:
            yield lambda: False
            return
        # The lock's file stays: a process that waits for it must not hold a removed one.
        held.callback(request.unlink, missing_ok=True)
        yield held.enter_context(interrupts.stop_when(request.exists))


def is_starting(home: Path, name: str) -> bool:
    """Whether a process is starting the sweep."""
    return locks.is_held(home / FOLDER / name)


def request_stop(home: Path, name: str) -> bool:
    """Request the process that is starting the sweep to stop; returns whether there was one."""
    found = is_starting(home, name)
    if found:
        _request_for(home, name).touch(mode=0o600)
    return found


def _request_for(home: Path, name: str) -> Path:
    """The file whose presence requests the process to stop."""
    return home / FOLDER / f"{name}.stop"

"""Sweeps that are being started: a process plans or starts Ray and does not hold the sweep's lock
yet. It holds the lock of a separate file in the home's `.starting`, so that it can be stopped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sweep import interrupts
from trainables.system import locks

FOLDER = ".starting"
_STOP = ".stop"


@contextmanager
def starting(home: Path, name: str) -> Iterator[Callable[[], bool]]:
    """Mark this process as starting the sweep `name`, which it may run inside the block. A request
    to stop interrupts the block (`interrupts.stop_when`); in a library it must poll the yielded
    function. Errors of the home's disk are ignored here.
    """
    claim = home / FOLDER / f"{name}.{os.getpid()}-{time.monotonic_ns()}"
    with ExitStack() as held:
        try:
            claim.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Looked at under its own name, an empty file would be removed before it is locked.
            fresh = claim.with_name(f".{claim.name}")
            held.enter_context(locks.alone(fresh, patience=0.0))
            fresh.rename(claim)
        except (OSError, TimeoutError):
            yield lambda: False
            return
        held.callback(_remove, claim)
        yield held.enter_context(interrupts.stop_when(_request_for(claim).exists))


def is_starting(home: Path, name: str) -> bool:
    """Whether a process is starting the sweep."""
    return bool(_live_files(home, name))


def request_stop(home: Path, name: str) -> bool:
    """Request every process that is starting the sweep to stop; returns whether there was one."""
    found = _live_files(home, name)
    for claim in found:
        _request_for(claim).touch(mode=0o600)
    return bool(found)


def _live_files(home: Path, name: str) -> list[Path]:
    """The files of live processes; those of killed ones are removed."""
    held = []
    for claim in sorted(home.glob(f"{FOLDER}/*")):
        if claim.suffix != _STOP and claim.stem == name:
            if locks.is_held(claim):
                held.append(claim)
            else:
                _remove(claim)
    return held


def _request_for(claim: Path) -> Path:
    """The file whose presence requests the process with this file to stop."""
    return claim.with_name(f"{claim.name}{_STOP}")


def _remove(claim: Path) -> None:
    for path in (claim, _request_for(claim)):
        with suppress(OSError):
            path.unlink(missing_ok=True)

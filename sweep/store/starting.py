"""Sweeps that a process makes ready: it plans or starts Ray and does not hold the sweep's lock yet.
It holds the lock of a file of its own in the home's `.starting`, so that it can be asked to stop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainables.system import locks

FOLDER = ".starting"
_STOP = "stop"


@contextmanager
def starting(home: Path, name: str) -> Iterator[Callable[[], bool]]:
    """Be a process that makes the sweep `name` ready, and may run it inside the block; yields
    whether it was asked to stop. A home that takes no file is left to who needs it.
    """
    place = home / FOLDER
    claim = place / f"{name}.{os.getpid()}-{time.monotonic_ns()}"
    stop = place / f"{claim.name}.{_STOP}"
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = locks.alone(claim, patience=0.0)
        lock.__enter__()
    except (OSError, TimeoutError):
        yield lambda: False
        return
    try:
        yield stop.exists
    finally:
        for path in (claim, stop):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        lock.__exit__(None, None, None)


def is_starting(home: Path, name: str) -> bool:
    """Whether a process makes the sweep ready."""
    return bool(_held(home, name))


def ask_to_stop(home: Path, name: str) -> bool:
    """Ask every process that makes the sweep ready to stop; whether there was one."""
    found = _held(home, name)
    for claim in found:
        (claim.parent / f"{claim.name}.{_STOP}").touch(mode=0o600)
    return bool(found)


def _held(home: Path, name: str) -> list[Path]:
    """The files whose process lives. What a killed one has left is removed."""
    held = []
    for claim in sorted(home.glob(f"{FOLDER}/*")):
        if claim.suffix == f".{_STOP}" or claim.name.rpartition(".")[0] != name:
            continue
        if locks.is_held(claim):
            held.append(claim)
            continue
        for path in (claim, claim.parent / f"{claim.name}.{_STOP}"):
            with suppress(OSError):
                path.unlink(missing_ok=True)
    return held

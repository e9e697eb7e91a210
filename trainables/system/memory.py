"""The memory of this process: its peak, and giving back to the system what was freed.

Batches of ragged records are tensors of ever other sizes. glibc keeps the gaps that
they leave, so that a process grows by gigabytes over a trial of which it uses a few
hundred megabytes.
"""

import ctypes
import functools
import resource
from collections.abc import Callable
from pathlib import Path


def peak_memory() -> int:
    """Bytes: the highest resident size of this process so far."""
    # Not `ru_maxrss` where avoidable, because a child inherits its parent's.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(
            row for row in status.read_text().splitlines() if row.startswith("VmHWM")
        )
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def give_back() -> None:
    """Return free pages to the system; takes some 0.05 s after an epoch. No-op without
    glibc.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; None in a process with another library."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found

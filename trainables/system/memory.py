"""Giving memory that was freed back to the system.

Batches of ragged records are tensors of ever other sizes. glibc keeps the gaps that they leave, so
that a process grows by gigabytes over a trial of which it uses a few hundred megabytes.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def give_back() -> None:
    """Return free pages to the system; takes some 0.05 s after an epoch. No-op without glibc."""
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

"""Python's collector of cyclic garbage, paused where many objects are made and all are
used.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Pause the collector, which would search all records for cycles again and again.
    Of a command that reads ten thousand trials it takes a fifth of the time.

    >>> with paused():
    ...     gc.isenabled()
    False
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

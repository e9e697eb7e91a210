"""The current phase of this process, such as "starting Ray", for progress displays.

Code enters a phase by `enter`, independently of the listeners.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

PLANNING = "planning"
CALIBRATING = "calibrating noise"
LOADING = "loading the corpus"
STARTING_RAY = "starting Ray"
TRAINING = ""
COMPARING = "comparing trials"
DELIVERING = "delivering results"

_LISTENERS: list[Callable[[str], None]] = []


def enter(words: str) -> None:
    """Set the phase; empty where the phases of the trials suffice."""
    for listen in tuple(_LISTENERS):
        listen(words)


@contextmanager
def listener(listen: Callable[[str], None]) -> Iterator[None]:
    """Call `listen` with every phase that is entered inside the block."""
    _LISTENERS.append(listen)
    try:
        yield
    finally:
        _LISTENERS.remove(listen)

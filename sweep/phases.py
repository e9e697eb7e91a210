"""The current phase of this process, such as "starting Ray", for progress displays.

Code enters a phase by `enter`, independently of the listeners.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PLANNING = "planning"
CALIBRATING = "calibrating noise"
LOADING = "loading the corpus"
STARTING_RAY = "starting Ray"
OPENING_MLFLOW = "opening MLflow"
TRAINING = ""
COMPARING = "comparing trials"
DELIVERING = "delivering results"

_LOG = logging.getLogger(__name__)
_LOG.propagate = False
_LOG.setLevel(logging.INFO)
_LOG.addHandler(logging.NullHandler())


def enter(words: str) -> None:
    """Set the phase; empty where the phases of the trials suffice."""
    _LOG.info(words)


@contextmanager
def listener(listen: Callable[[str], None]) -> Iterator[None]:
    """Call `listen` with every phase that is entered inside the block."""
    handler = _Handler(listen)
    _LOG.addHandler(handler)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, listen: Callable[[str], None]) -> None:
        super().__init__()
        self._listen = listen

    def emit(self, record: logging.LogRecord) -> None:
        self._listen(record.getMessage())

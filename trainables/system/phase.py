"""What a trial does besides training, in a file of its folder, for whoever watches it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

LOADING = "loading the corpus"
EVALUATING = "evaluating"
ATTACKS = "attacks"
DRAWING = "drawing texts"
_FILE = ".phase"


def enter(folder: Path, words: str) -> None:
    """From now on it is this; empty: it trains, or has ended. A failed write goes unnoticed."""
    with suppress(OSError):
        if words:
            (folder / _FILE).write_text(words, encoding="utf-8")
        else:
            (folder / _FILE).unlink(missing_ok=True)


def of(folder: Path) -> str:
    """What a trial does besides training; empty: nothing is known.

    >>> of(Path("/nowhere"))
    ''
    """
    try:
        return (folder / _FILE).read_text(encoding="utf-8")[:40]
    except (OSError, ValueError):
        return ""

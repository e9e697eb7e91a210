"""The phase of a trial outside of training, in a file of its folder, for progress displays."""

from contextlib import suppress
from pathlib import Path

LOADING = "loading the corpus"
EVALUATING = "evaluating"
ATTACKS = "attacks"
DRAWING = "drawing texts"
_FILE = ".phase"


def enter(folder: Path, words: str) -> None:
    """Set the phase; empty: it trains, or has ended. A failed write is ignored."""
    with suppress(OSError):
        if words:
            (folder / _FILE).write_text(words, encoding="utf-8")
        else:
            (folder / _FILE).unlink(missing_ok=True)


def of(folder: Path) -> str:
    """The phase of a trial; empty where unknown.

    >>> of(Path("/nowhere"))
    ''
    """
    try:
        return (folder / _FILE).read_text(encoding="utf-8")[:40]
    except (OSError, ValueError):
        return ""

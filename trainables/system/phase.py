"""The phase of a trial outside of training, in a file of its folder, for progress
displays.
"""

from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

LOADING = "loading the corpus"
EVALUATING = "evaluating"
ATTACKS = "attacks"
DRAWING = "drawing texts"
FOLDER: ContextVar[Path | None] = ContextVar(
    "folder", default=None
)  # of this thread's trial
_FILE = ".phase"


def enter(words: str) -> None:
    """Set the phase; empty: it trains, or has ended. A failed write is ignored."""
    folder = FOLDER.get()
    with suppress(OSError):
        if folder and words:
            (folder / _FILE).write_text(words, encoding="utf-8")
        elif folder:
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

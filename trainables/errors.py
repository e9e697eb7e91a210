"""Everything this project raises on purpose, in one tree.

    SweepError
    ├── InvalidInput      an invalid argument, file or field (exit code 2)
    │   ├── InvalidData   a data file that is missing or damaged; the message never quotes its text
    │   └── CannotAnalyze a mechanism outside of an accountant's theorem
    ├── TrialFailed       a trial that failed while it ran (exit code 1)
    ├── MachineFailed     what a trial ran on failed, and not the trial itself (exit code 1)
    └── StorageFailed     a disk that is full, read-only or missing (exit code 1)

Each message is one sentence that names the field, the value and what is allowed. The
functions cut values, names and the words of other errors down to what such a sentence
can hold.
"""

import difflib
import os
import reprlib
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_LONGEST = 2_000


class SweepError(Exception):
    """Root of the tree. Long messages are shortened in their middle."""

    def __init__(self, message: str) -> None:
        super().__init__(_shortened(message, _LONGEST))


class InvalidInput(SweepError):
    """Input that is refused before anything starts."""


class InvalidData(InvalidInput):
    """A data file that cannot be used. States file and line, never the line's text."""


class CannotAnalyze(InvalidInput):
    """A mechanism outside an accountant's theorem. Names the accountant and the
    reason.
    """


class TrialFailed(SweepError):
    """A trial that failed while it ran; its reports are kept."""


class MachineFailed(SweepError):
    """Memory, a process or a file of a trial is lost. The same trial may succeed
    elsewhere.
    """


class StorageFailed(SweepError):
    """A failed write to disk. It pauses the running trials and does not fail them."""


class _Short(reprlib.Repr):
    """A `repr` that never builds the whole text of a large value."""

    def repr_int(self, x: int, level: int) -> str:
        return (
            repr(x) if x.bit_length() <= 400 else f"an integer of {x.bit_length()} bits"
        )


_SHORT = _Short()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxdict = 3, 120, 120, 6


def quote(value: Any) -> str:
    """A value for an error message, at most 120 characters of it, whatever its size.

    >>> quote("plain"), len(quote("a" * 10**6)) <= 120, len(quote([[0] * 9] * 9)) <= 120
    ("'plain'", True, True)
    """
    text = _SHORT.repr(value)
    return text if len(text) <= 120 else f"{text[:58]}...{text[-58:]}"


def kind_of(value: Any) -> str:
    """What a plain value is, for an error message that must not quote it.

    >>> kind_of(None), kind_of("a"), kind_of([]), kind_of(1.5)
    ('nothing', 'text', 'a list', 'a number')
    """
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {type(None): "nothing", str: "text", bool: "true or false", list: "a list"}
_KINDS |= {int: "a number", float: "a number", dict: "a mapping"}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or nothing.

    >>> did_you_mean("num_heads", ["num_layers", "dropout"]), did_you_mean("x", ["b", "a"])
    (': did you mean num_layers?', '')
    """
    near = nearest_name(name, known)
    return "" if near is None else f": did you mean {near}?"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like an unknown one; None where none is alike."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def _shortened(message: str, characters: int) -> str:
    half = characters // 2
    return (
        message
        if len(message) <= characters
        else f"{message[:half]} ... {message[-half:]}"
    )


def one_line(message: str, *, characters: int = _LONGEST) -> str:
    """A message on one line, without terminal control codes, shortened in its middle.

    >>> one_line("a\\n b\\x1b[2J")
    'a b\\\\x1b[2J'
    """
    words = " ".join(_shortened(message, characters).split())
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in words
    )


def words_of(error: BaseException) -> str:
    """What an error says: its own words, with the files that the system names, else
    those of its cause; where nothing is said, its type and the place that raised it.
    Never empty.

    >>> words_of(OSError(2, "No such file", "a.txt")), words_of(ConnectionError("no answer"))
    ('No such file (a.txt)', 'no answer')
    """
    each: BaseException | None = error
    seen: list[BaseException] = []
    while each is not None and not any(each is before for before in seen):
        if said := _own_words(each):
            return said
        seen.append(each)
        each = each.__cause__ or (
            None if each.__suppress_context__ else each.__context__
        )
    frames = traceback.extract_tb(error.__traceback__)
    place = (
        f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    )
    return f"{type(error).__name__}{place}, which has no message"


def _own_words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        inner = "; ".join(dict.fromkeys(words_of(each) for each in error.exceptions))
        return f"{error.message.strip()}: {inner}" if error.message.strip() else inner
    if isinstance(error, OSError) and (said := system_words(error)):
        names = (error.filename, error.filename2)
        files = ", ".join(
            os.fsdecode(n) for n in names if isinstance(n, str | bytes | os.PathLike)
        )
        return f"{said} ({files})" if files else said
    said = str(error).strip()
    return (
        f"{type(error).__name__}: {said}"
        if said and isinstance(error, KeyError)
        else said
    )


def system_words(error: OSError) -> str:
    """The system's own words for its error, which quote nothing; "" for an error of a
    library.

    >>> system_words(OSError(28, None)), system_words(OSError("secret"))
    ('No space left on device', '')
    """
    if error.strerror:
        return str(error.strerror).strip()
    number = error.errno
    return os.strerror(number) if isinstance(number, int) and 0 < number < 1_000 else ""

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
    """Root of everything this project raises on purpose: a caller that catches it shows
    the message as it is, on one line and without a traceback. A `message` of more than
    2,000 characters is shortened in its middle.
    """

    def __init__(self, message: str) -> None:
        super().__init__(_shortened(message, _LONGEST))


class InvalidInput(SweepError):
    """Input (an argument, a file, a field of a config) that is refused before anything
    starts; a command then exits with 2. The message is one sentence with the field, the
    value and what is allowed, the cause first, and never a record's text.
    """


class InvalidData(InvalidInput):
    """A data file that cannot be used: it is missing, damaged or in another form. The
    message states file and line and what was expected there, never the line's text,
    which may be a private utterance.
    """


class CannotAnalyze(InvalidInput):
    """A mechanism outside an accountant's theorem, for which that accountant has no
    finite figure at any effort. The message names the accountant and the reason;
    another accountant, or other fields of `privacy`, may have one.
    """


class TrialFailed(SweepError):
    """A trial that failed while it ran: a step, a comparison or a user's code did not
    do what was promised. Its reports are kept, what it spent stays charged, and the
    sweep goes on with the next trial.
    """


class MachineFailed(SweepError):
    """What a trial ran on failed: memory, a process or a file is lost, and not by the
    trial itself. The same trial may succeed elsewhere, so an executor tries it again
    from its last checkpoint, under a new attempt and with new noise.
    """


class StorageFailed(SweepError):
    """A failed write to disk: full, read-only or gone. It pauses the running trials and
    does not fail them, because what they have spent is charged and they can go on from
    their checkpoints once there is room.
    """


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
    """What a plain value is ("text", "a list", "nothing"), for an error message about
    data that must not quote the value. A value of another type gives the name of its
    type.

    >>> kind_of(None), kind_of("a"), kind_of([]), kind_of(1.5)
    ('nothing', 'text', 'a list', 'a number')
    """
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {type(None): "nothing", str: "text", bool: "true or false", list: "a list"}
_KINDS |= {int: "a number", float: "a number", dict: "a mapping"}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown `name`: ": did you mean NEAREST?" with the
    most similar of the `known` names, or an empty text where none is alike. Put it
    behind the sentence's last word.

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
    """A message on one line for a terminal, a log or a table: runs of white space are
    one blank, control codes are written out as escapes so that they cannot move the
    cursor, and more than `characters` are shortened in the middle.

    >>> one_line("a  " + chr(10) + " b" + chr(27) + "[2J")
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
    """The operating system's own words for its error, such as "No space left on
    device". They quote no file's content and so may be shown; an error that a library
    made has none and gives an empty text.

    >>> system_words(OSError(28, None)), system_words(OSError("secret"))
    ('No space left on device', '')
    """
    if error.strerror:
        return str(error.strerror).strip()
    number = error.errno
    return os.strerror(number) if isinstance(number, int) and 0 < number < 1_000 else ""

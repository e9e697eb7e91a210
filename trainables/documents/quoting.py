"""Values quoted in error messages: on one line and shortened."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

_CHARACTERS = 120
_KINDS = {
    type(None): "nothing",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
}


def quote(value: Any) -> str:
    """A value for an error message, at most about 120 characters, whatever its size.

    >>> quote("plain"), len(quote("a" * 10**6)) <= 120, len(quote([[0] * 9] * 9)) <= 120
    ("'plain'", True, True)
    """
    text = _SHORT.repr(value)
    half = _CHARACTERS // 2 - 2
    return text if len(text) <= _CHARACTERS else f"{text[:half]}...{text[-half:]}"


def kind_of(value: Any) -> str:
    """What a plain value is, for an error message that must not quote it.

    >>> kind_of(None), kind_of("a"), kind_of([]), kind_of(1.5)
    ('nothing', 'text', 'a list', 'a number')
    """
    return _KINDS.get(type(value), type(value).__name__)


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


def one_line(message: str, *, characters: int = 2_000) -> str:
    """A message on one line, without terminal control codes, shortened in its middle.

    >>> one_line("a\\n b\\x1b[2J")
    'a b\\\\x1b[2J'
    """
    if len(message) > characters:
        half = characters // 2
        message = f"{message[:half]} ... {message[-half:]}"
    words = " ".join(message.split())
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


class _Short(reprlib.Repr):
    """A `repr` that never builds the whole text of a large value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _CHARACTERS
        self.maxlevel = 3
        self.maxdict = self.maxlist = self.maxtuple = 6

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 400:
            return f"an integer of {x.bit_length()} bits"
        return repr(x)


_SHORT = _Short()

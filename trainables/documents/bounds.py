"""Bounds on the size of a document and its values, and the error of one that exceeds them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from trainables.documents.quoting import one_line

MAX_BYTES = 1 << 20  # of a file that a person writes
MAX_DEPTH = 50  # levels of nested lists and mappings
MAX_DIGITS = 40  # of an integer: more than any 128-bit one has
MAX_KEY = 500  # characters
TO_UTF_8 = " (if it is Latin-1, `iconv -f LATIN1 -t UTF-8 FILE > NEW` converts it)"


class DocumentProblem(ValueError):
    """A problem of a document; the message quotes only its keys. `line` from 1 where known.
    `advice` is a remedy in brackets, which need not be repeated for each line.
    """

    def __init__(self, words: str, *, line: int | None = None, advice: str = "") -> None:
        super().__init__(words)
        self.line = line
        self.advice = advice


def integer(text: str) -> int:
    """The integer of a text. Raises: DocumentProblem for one with too many digits.

    >>> integer("-12")
    -12
    """
    if len(text) > MAX_DIGITS + 1:
        raise DocumentProblem(f"expected integers of at most {MAX_DIGITS} digits")
    return int(text, 0)


def decimal(text: str) -> float:
    """The number of a text. Raises: DocumentProblem for one that no float can hold.

    >>> decimal("1e-3")
    0.001
    """
    value = float(text)
    if math.isinf(value):
        raise DocumentProblem("expected numbers that a float can hold")
    return value


def require_text(text: str) -> None:
    """Raises: DocumentProblem for text that cannot be written to a file and read back."""
    if "\0" in text:
        raise DocumentProblem("expected text without NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DocumentProblem("expected text without halves of surrogate pairs") from None


def require_storable(value: Any, *, place: tuple[str, ...] = ()) -> None:
    """Raises: DocumentProblem that names the place in plain data of what the readers of a written
    document would refuse: text that no file holds, too many levels.
    """
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, str):
        try:
            require_text(value)
        except DocumentProblem as problem:
            where = one_line(".".join(place), characters=MAX_KEY)
            raise DocumentProblem(f"{problem} in {where}") from None
    elif isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    for key, each in inner:
        if len(place) >= MAX_DEPTH:
            raise DocumentProblem(f"expected at most {MAX_DEPTH} lists and objects in one another")
        for part in (key, each):
            require_storable(part, place=(*place, str(key)))

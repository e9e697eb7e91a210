"""Bounds on the size of a document and its values, and the error of one that exceeds them."""

from __future__ import annotations

import math

MAX_BYTES = 1 << 20  # of a file that a person writes
MAX_DEPTH = 50  # levels of nested lists and mappings
MAX_VALUES = 200_000  # of a YAML document, what aliases stand for counted each time
MAX_DIGITS = 40  # of an integer: more than any 128-bit one has
MAX_KEY = 500  # characters


class DocumentProblem(ValueError):
    """A problem of a document; the message quotes only its keys. `line` from 1 where known."""

    def __init__(self, words: str, *, line: int | None = None) -> None:
        super().__init__(words)
        self.line = line


def integer(text: str) -> int:
    """The integer of a text. Raises: DocumentProblem for one with too many digits.

    >>> integer("-12")
    -12
    """
    if len(text) > MAX_DIGITS + 1:
        raise DocumentProblem(f"expected integers of at most {MAX_DIGITS} digits")
    return int(text)


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

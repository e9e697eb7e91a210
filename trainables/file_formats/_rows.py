"""Rows of delimited text, in which a quote that is never closed costs one line.

A parser of CSV alone takes everything behind such a quote for one value: records would be merged,
their labels read as words, without any message.
"""

from __future__ import annotations

import csv
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from trainables.errors import InvalidData
from trainables.files import file_lines

_MOST_LINES = 100  # of one row

Line = tuple[str, str]


def rows(path: Path, *, delimiter: str) -> Iterator[tuple[str, list[str]] | InvalidData]:
    """(file and first line, values) of every row, in order, or the problem of a line.

    A quoted value may have line breaks, but not whole rows.

    Raises: InvalidData for a file that cannot be read.
    """
    csv.field_size_limit(sys.maxsize)
    source = _Lines(path)
    while (found := source.take()) is not None:
        if isinstance(found, InvalidData):
            yield found
            continue
        where, first = found
        beyond: list[Line] = []
        try:
            cells = next(csv.reader(_feed(first, source, beyond), delimiter=delimiter, strict=True))
        except csv.Error:
            cells = None
        if cells is None or _holds_rows(cells, delimiter):
            source.give_back(beyond)
            yield InvalidData(
                f"expected a row of values in {where}, got a quote that does not end a value (a"
                " value with a quote is quoted, and the quote in it doubled)"
            )
        else:
            yield where, cells


class _Lines:
    """The lines of a file, which can be given back."""

    def __init__(self, path: Path) -> None:
        self._rest = file_lines(path)
        self._returned: deque[Line | InvalidData] = deque()

    def take(self) -> Line | InvalidData | None:
        """The next line or its problem; None at the end."""
        return self._returned.popleft() if self._returned else next(self._rest, None)

    def give_back(self, taken: list[Line] | list[InvalidData]) -> None:
        """The lines `taken` come again, in their order."""
        self._returned.extendleft(reversed(taken))


def _feed(first: str, source: _Lines, beyond: list[Line]) -> Iterator[str]:
    """A line and those behind it, as far as a parser asks for them; the latter are in `beyond`."""
    yield f"{first}\n"
    while len(beyond) < _MOST_LINES - 1 and (found := source.take()) is not None:
        if isinstance(found, InvalidData):
            source.give_back([found])
            return
        beyond.append(found)
        yield f"{found[1]}\n"


def _holds_rows(cells: list[str], delimiter: str) -> bool:
    """Whether a value with line breaks reads as the rest of a row, and whole rows, before the
    beginning of one. People put a space behind a comma, rows of values do not.
    """
    for place, cell in enumerate(cells):
        first, *others = cell.split("\n")
        if not others:
            continue
        *whole, last = others
        counts = [line.count(delimiter) for line in (first, *whole, last)]
        rows = [len(cells) - 1 - place, *(len(cells) - 1 for _ in whole), place]
        if counts == rows and f"{delimiter} " not in cell:
            return True
    return False

"""A table fitted to the width of its output: no number is cut, broken over lines or shortened.

Where a terminal is too narrow, the least important columns are left out first and named below the
table; if that is not enough, columns of settings become one column of `name=value` pairs. Only
words are broken over lines, between their parts and never inside a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

ALWAYS = 100  # the worth of a column that is never left out
_WORDS_WHOLE = 40  # columns worth less are left out before words are broken
_KEPT_APART = 50  # columns worth less are left out before settings share a column
_LONGEST_WORD = 10  # cells: a longer word without a digit may be broken
_NUMBER = r"[+-]?\d[\d.,]*(?:e[+-]?\d+)?"
_SIGN = r"(?![+-]\d)[^\w\s]"
_PART = re.compile(rf"(?:[^\W\d]\w*|{_NUMBER})(?:{_SIGN})*|(?:{_SIGN})+|\S")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column, a cell for each row. `worth`: priority, from 0 (left out first) to `ALWAYS`.

    `is_text`: words, which may be broken over lines. `is_left`: aligned to the left, as words are.
    `is_setting`: a value that `settings` may contain instead. `at_least`: fewest cells for readable
    words. `name`: the column's name in a sentence; empty: its head. `legend` explains it.
    """

    head: str
    cells: Sequence[str | Text]
    worth: int = ALWAYS
    is_text: bool = False
    is_left: bool = False
    is_setting: bool = False
    at_least: int = 1
    name: str = ""
    legend: str = ""

    @cached_property
    def natural(self) -> int:
        """Cells that it takes unbroken."""
        return max(self._head, *(cell_len(_plain(cell)) for cell in self.cells), 1)

    @cached_property
    def least(self) -> int:
        """Cells below which a number, or a short word, would be cut."""
        if not self.is_text:
            return self.natural
        words = {part for cell in self.cells for part in parts(_plain(cell))}
        return min(self.natural, max(self.at_least, self._head, *(_least(w) for w in words)))

    @property
    def _head(self) -> int:
        return max(cell_len(word) for word in _head_lines(self.head))


@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """Columns under a title, with notes below; `styles` has one style for each row.

    `settings` replaces the first text column and all settings where these do not fit.
    """

    columns: Sequence[Column]
    title: str = ""
    notes: Sequence[str] = ()
    styles: Sequence[str] = ()
    settings: Column | None = None
    is_live: bool = False

    def columns_at(self, width: int) -> tuple[list[Column], list[str]]:
        """The columns that fit into `width` cells, and the names of those left out."""
        present = [
            column
            for column in self.columns
            if _says_something(column) and not self._is_of_one_value(column)
        ]
        found = _fitting(present, width, below=_WORDS_WHOLE, whole=True)
        if found is None:
            found = _fitting(present, width, below=_KEPT_APART)
        if found is None and self.settings is not None:
            found = _fitting(_merge(present, self.settings), width, below=ALWAYS)
        if found is None:
            found = _fitting(present, width, below=ALWAYS) or present
        heads = {id(column) for column in found}
        merged = self.settings is not None and any(column is self.settings for column in found)
        missing = [
            column.name or column.head
            for column in present
            if id(column) not in heads and not (merged and (column.is_setting or column.is_text))
        ]
        return found, missing

    def _is_of_one_value(self, column: Column) -> bool:
        """Whether its cells are alike, so that a note says it in less room; in a live table they
        need not stay so.
        """
        is_alike = len({_plain(cell) for cell in column.cells}) == 1 < len(column.cells)
        return is_alike and column.worth < ALWAYS and not self.is_live

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        width = options.max_width
        columns, missing = self.columns_at(width)
        alike = [
            f"{column.name or column.head}: {_plain(column.cells[0])} in every row"
            for column in self.columns
            if self._is_of_one_value(column) and _says_something(column)
        ]
        if self.title:
            yield Text(break_lines(self.title, width), style="bold")
        if columns:
            yield _to_table(columns, width, self.styles)
        legends = [*alike, *(column.legend for column in columns if column.legend)]
        if missing and not self.is_live:
            legends.append(f"no room for: {', '.join(missing)}")
        for line in filter(None, [" · ".join(dict.fromkeys(legends)), *self.notes]):
            yield Text(break_lines(line, width), style="dim")


def _says_something(column: Column) -> bool:
    """Whether a column has a cell other than blanks and dashes."""
    return any(_plain(cell).strip(" -") for cell in column.cells)


def _fitting(
    columns: Sequence[Column], width: int, *, below: int, whole: bool = False
) -> list[Column] | None:
    """The columns without the least important ones, as few as necessary; None where those worth
    `below` or more do not fit. `whole`: without breaking words.
    """
    kept = list(columns)
    while kept and _width(kept, whole=whole) > width:
        least = min(kept, key=lambda column: column.worth)
        if least.worth >= below:
            return None
        kept.remove(least)
    return kept


def _width(columns: Sequence[Column], *, gap: int = 1, whole: bool = False) -> int:
    taken = sum(column.natural if whole else column.least for column in columns)
    return taken + gap * (len(columns) - 1)


def _merge(columns: Sequence[Column], settings: Column) -> list[Column]:
    """The columns with `settings` in the place of the first of those that it replaces."""
    apart = [column for column in columns if not (column.is_setting or column.is_text)]
    place = next((n for n, column in enumerate(columns) if column.is_setting or column.is_text), 0)
    return [*apart[:place], settings, *apart[place:]]


def _to_table(columns: Sequence[Column], width: int, styles: Sequence[str]) -> Table:
    gap = 2 if _width(columns, gap=2, whole=True) <= width else 1
    spare = width - _width(columns, gap=gap)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, gap - 1, 0, 0), pad_edge=False)
    drawn = []
    for column in columns:
        taken = min(column.natural, column.least + max(0, spare))
        spare -= taken - column.least
        head = (
            column.head if cell_len(column.head) <= taken else "\n".join(_head_lines(column.head))
        )
        table.add_column(
            head,
            justify="left" if column.is_text or column.is_left else "right",
            no_wrap=True,
            width=taken,
            overflow="crop",
        )
        drawn.append([_break(cell, taken) if column.is_text else cell for cell in column.cells])
    for place, row in enumerate(zip(*drawn, strict=True)):
        table.add_row(*row, style=styles[place] if place < len(styles) else None)
    return table


def _break(cell: str | Text, width: int) -> Text:
    if isinstance(cell, Text):
        return Text(break_lines(cell.plain, width), style=cell.style)
    return Text(break_lines(cell, width))


def break_lines(text: str, width: int) -> str:
    """Text over lines of at most `width` cells, broken at spaces, else between the parts of a word,
    never inside a number.

    >>> break_lines("edp-linear, z0=1e-05", 8).splitlines()
    ['edp-', 'linear,', 'z0=1e-05']
    """
    lines = [""]
    for word in text.split():
        space = " " if lines[-1] else ""
        if cell_len(lines[-1] + space + word) <= width:
            lines[-1] += space + word
            continue
        if lines[-1]:
            lines.append("")
        for piece in [word] if cell_len(word) <= width else _pieces(word, width):
            if cell_len(lines[-1] + piece) <= width or not lines[-1]:
                lines[-1] += piece
            else:
                lines.append(piece)
    return "\n".join(lines)


def parts(text: str) -> list[str]:
    """Where a text may be broken: between words, and in a word after its signs.

    >>> parts("edp-linear, lr=1e-05")
    ['edp-', 'linear,', 'lr=', '1e-05']
    """
    return [part for word in text.split() for part in _PART.findall(word) if part]


def _pieces(word: str, width: int) -> Iterator[str]:
    for part in parts(word):
        if cell_len(part) <= width or any(sign.isdigit() for sign in part):
            yield part
        else:
            yield from chop_cells(part, width)


def _least(part: str) -> int:
    length = cell_len(part)
    return length if any(sign.isdigit() for sign in part) else min(length, _LONGEST_WORD)


def _head_lines(head: str) -> list[str]:
    """`epsilon_paper` and "validation SER" are wide heads over narrow numbers."""
    return [head] if cell_len(head) <= _LONGEST_WORD else re.findall(r"[^_ ]+_?", head)


def _plain(cell: str | Text) -> str:
    return cell.plain if isinstance(cell, Text) else cell

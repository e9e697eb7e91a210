"""A table fitted to the width of its output: no number is cut, broken over lines or
shortened.

Where a terminal is too narrow, the least important columns are left out and named below
the table; if that is not enough, columns of settings become one column. Only words are
broken over lines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

ALWAYS = 100  # the worth of a column that is never left out
_KEPT_APART = 50  # columns worth less are left out before settings share a column
_LONGEST_HEAD = 10  # cells: a longer head has a line for each word
_LONGEST_WORD = 24  # cells: a longer word of a text may be broken; no number is as long


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column, a cell for each row. `worth`: priority, from 0 (left out first) to
    `ALWAYS`. `is_text`: words, which may be broken over lines, or with
    `is_one_line` are shortened at their end. `is_left`: aligned to
    the left, as words are. `is_setting`: a value that `settings` may contain instead.
    `at_least`: fewest cells for readable words. `name`: the column's name in a
    sentence; empty: its head. `legend` explains it.
    """

    head: str
    cells: Sequence[str | Text]
    worth: int = ALWAYS
    is_text: bool = False
    is_one_line: bool = False
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
        words = [cell_len(word) for cell in self.cells for word in _plain(cell).split()]
        longest = min(max(words, default=1), _LONGEST_WORD)
        return min(self.natural, max(self.at_least, self._head, longest))

    @property
    def lines(self) -> list[str]:
        """Its head."""
        return (
            [self.head] if cell_len(self.head) <= _LONGEST_HEAD else self.head.split()
        )

    @property
    def _head(self) -> int:
        return max(map(cell_len, self.lines))


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
            c
            for c in self.columns
            if _says_something(c) and not self._is_of_one_value(c)
        ]
        merged = present if self.settings is None else _merge(present, self.settings)
        found = _fitting(present, width, below=_KEPT_APART) or _fitting(
            merged, width, below=ALWAYS
        )
        kept = present if found is None else found
        is_merged = any(column is self.settings for column in kept)
        missing = [
            column.name or column.head
            for column in present
            if column not in kept
            and not (is_merged and (column.is_setting or column.is_text))
        ]
        return kept, missing

    def _is_of_one_value(self, column: Column) -> bool:
        """Whether its cells are alike, so that a note says it in less room; in a live
        table they need not stay so.
        """
        is_alike = len({_plain(cell) for cell in column.cells}) == 1 < len(column.cells)
        return is_alike and column.worth < ALWAYS and not self.is_live

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        columns, missing = self.columns_at(options.max_width)
        alike = [
            f"{column.name or column.head}: {_plain(column.cells[0])} in every row"
            for column in self.columns
            if self._is_of_one_value(column) and _says_something(column)
        ]
        if self.title:
            yield Text(self.title, style="bold")
        if columns:
            yield _to_table(columns, options.max_width, self.styles)
        legends = [*alike, *(column.legend for column in columns if column.legend)]
        if missing and not self.is_live:
            legends.append(f"no room for: {', '.join(missing)}")
        for line in filter(None, [" · ".join(dict.fromkeys(legends)), *self.notes]):
            yield Text(line, style="dim")


def _says_something(column: Column) -> bool:
    """Whether a column has a cell other than blanks and dashes."""
    return any(_plain(cell).strip(" -") for cell in column.cells)


def _fitting(
    columns: Sequence[Column], width: int, *, below: int
) -> list[Column] | None:
    """The columns without the least important ones, as few as necessary; None where
    those worth `below` or more do not fit.
    """
    kept = list(columns)
    while kept and sum(column.least + 1 for column in kept) - 1 > width:
        least = min(kept, key=lambda column: column.worth)
        if least.worth >= below:
            return None
        kept.remove(least)
    return kept


def _merge(columns: Sequence[Column], settings: Column) -> list[Column]:
    """The columns with `settings` in the place of the first of those that it
    replaces.
    """
    apart = [column for column in columns if not (column.is_setting or column.is_text)]
    place = next(
        (n for n, column in enumerate(columns) if column.is_setting or column.is_text),
        0,
    )
    return [*apart[:place], settings, *apart[place:]]


def _to_table(columns: Sequence[Column], width: int, styles: Sequence[str]) -> Table:
    gap = 2 if sum(column.natural + 2 for column in columns) - 2 <= width else 1
    spare = max(0, width - sum(column.least + gap for column in columns) + gap)
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, padding=(0, gap - 1, 0, 0), pad_edge=False
    )
    for column in columns:
        taken = min(column.natural, column.least + spare)
        spare -= taken - column.least
        table.add_column(
            column.head if cell_len(column.head) <= taken else "\n".join(column.lines),
            justify="left" if column.is_text or column.is_left else "right",
            no_wrap=column.is_one_line or not column.is_text,
            width=taken,
            overflow="ellipsis" if column.is_one_line else "fold",
        )
    for place, row in enumerate(
        zip(*(column.cells for column in columns), strict=True)
    ):
        cells = [cell if isinstance(cell, Text) else Text(cell) for cell in row]
        table.add_row(*cells, style=styles[place] if place < len(styles) else None)
    return table


def _plain(cell: str | Text) -> str:
    return cell.plain if isinstance(cell, Text) else cell

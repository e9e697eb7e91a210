"""A table of the terminal as HTML: the same columns, cells and notes, escaped, for a notebook.

A caption names the table, headers say which column or row they are of (WCAG 2.2, H51, H63).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.text import Text

from sweep.results.tables.fitting import Column, FittedTable

_WIDE = 10_000  # characters: a page scrolls


def to_html(table: FittedTable, *, sentences: Sequence[str] = ()) -> str:
    """One `<table>`, and a paragraph for each legend, note and sentence below it."""
    columns, _ = table.columns_at(_WIDE)
    rows = zip(*(column.cells for column in columns), strict=True) if columns else ()
    head = "".join(_head(column) for column in columns)
    named = next((n for n, column in enumerate(columns) if column.is_left), None)
    body = "\n".join(
        f"<tr>{''.join(_cell(columns[n], cell, n == named) for n, cell in enumerate(row))}</tr>"
        for row in rows
    )
    legends = " · ".join(dict.fromkeys(column.legend for column in columns if column.legend))
    paragraphs = [text for text in (legends, *table.notes, *sentences) if text]
    below = "\n".join(f"<p>{escape(text)}</p>" for text in paragraphs)
    return (
        f'<table class="dataframe"><caption>{escape(table.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>\n{below}"
    )


def _head(column: Column) -> str:
    label = "" if column.head else f' aria-label="{escape(column.name)}"'
    return f'<th scope="col"{label}{_alignment(column)}>{escape(column.head)}</th>'


def _cell(column: Column, content: str | Text, is_row_head: bool) -> str:
    text = escape(content.plain if isinstance(content, Text) else content)
    if is_row_head:
        return f'<th scope="row"{_alignment(column)}>{text}</th>'
    return f"<td{_alignment(column)}>{text}</td>"


def _alignment(column: Column) -> str:
    side = "left" if column.is_left or column.is_text else "right"
    return f' style="text-align: {side}"'

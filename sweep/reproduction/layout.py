"""Markdown grids and CSV. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def grid(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(grid(["a", "b"], [["1", ""]]))
    | a | b |
    | --- | --- |
    | 1 |  |
    """
    bar = "\\|"
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', bar) for cell in row)} |" for row in rows)


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mappings of the same keys as CSV with a head; empty without rows. Infinity is `inf`."""
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()

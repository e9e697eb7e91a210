"""Table 2 as Markdown and CSV. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboards import palette
from sweep.reproduction.layout import csv_of, grid
from sweep.reproduction.timing import Cell, TimedRow, Timing

_LEGEND = (
    "Processor seconds of an epoch, all N logical workers in one process of one thread: the mean of"
    " a few measured steps scaled to an epoch, and the standard deviation of these. No whole epoch"
    " was run. Factors over SGD: medians within a round, quartiles in brackets."
)


def markdown(timing: Timing, rows: Sequence[TimedRow]) -> str:
    """The whole table."""
    heads = ["corpus", "model", "records", "N"]
    for place, engine in enumerate(timing.engines):
        heads.append(f"{palette.name(engine)}, s an epoch")
        heads += [f"{palette.name(engine)}, factor"] if place else []
    lines = []
    for row in rows:
        cells = {cell.engine: cell for cell in row.cells}
        line = [row.corpus, row.model, f"{row.num_records:,}", str(row.workers)]
        for place, engine in enumerate(timing.engines):
            found = cells.get(engine)
            line.append("-" if found is None else _seconds(found))
            line += ["-" if found is None else _factor(found)] if place else []
        lines.append(line)
    notes = "\n".join(f"- {note}" for note in timing.paper_notes)
    body = grid(heads, lines) if rows else "No row has been measured."
    return "\n\n".join(["# Table 2", _LEGEND, body, "## Notes", notes]) + "\n"


def _seconds(cell: Cell) -> str:
    digits = 1 if cell.epoch_seconds < 100 else 0
    return f"{cell.epoch_seconds:,.{digits}f} ± {cell.deviation:,.{digits}f}"


def _factor(cell: Cell) -> str:
    return f"{cell.factor:.2f} ({cell.factor_low:.2f} to {cell.factor_high:.2f})"


def plain(rows: Sequence[TimedRow]) -> list[dict[str, Any]]:
    """One flat mapping for each engine of each row."""
    return [
        {
            "corpus": row.corpus,
            "model": row.model,
            "workers": row.workers,
            "num_records": row.num_records,
            "steps_per_epoch": row.steps_per_epoch,
            **vars(cell),
        }
        for row in rows
        for cell in row.cells
    ]


def csv_text(rows: Sequence[TimedRow]) -> str:
    """As `plain`, with a head; empty without rows."""
    return csv_of(plain(rows))

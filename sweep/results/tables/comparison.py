"""The two sides of a comparison as a table, and its result in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep.results.tables.fitting import Column, FittedTable
from trainables import formats
from trainables.figures import label

if TYPE_CHECKING:
    from sweep.results.comparison import Comparison


def comparison_table(found: Comparison) -> FittedTable:
    """A row for each figure, a column for each side."""
    sides = (found.first, found.second)
    heads, rows = ["trial"], [[side.record.plan.name for side in sides]]
    for name, values in found.figures.items():
        heads.append(label(name))
        rows.append([formats.figure(name, value) for value in values])
    return FittedTable(
        title="B against A",
        columns=[
            Column(head="", name="figure", cells=heads, is_text=True, is_left=True),
            *(
                Column(head=side.name, cells=[row[place] for row in rows], is_text=True)
                for place, side in enumerate(sides)
            ),
        ],
    )


def sentences(found: Comparison) -> list[str]:
    """The paired figures in sentences."""
    lines = []
    if found.paired is not None:
        change, low, high = found.paired
        verdict = "" if low <= 0 <= high else ", significant"
        lines.append(
            f"SER changes by {change:+.1f} % (95 %: {low:+.1f} to {high:+.1f}{verdict}),"
            " paired over the test utterances."
        )
    elif found.figures.get("ser", (None, None))[0] == 0:
        lines.append("SER has no change in percent, because A makes no error.")
    elif found.tested_on_the_same:
        lines.append("SER has no change in percent, because A makes too few errors.")
    elif "ser" in found.figures:
        lines.append("SER is not paired: the two were not tested on the same utterances.")
    return lines

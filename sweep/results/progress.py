"""How far a sweep is: what its trials do now, as a table. Plain data in, a Rich table out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from sweep.results.table import STYLES
from sweep.store.status import TrialStatus
from trainables import formats


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a running trial is; `epsilon` is what it has spent."""

    name: str
    status: TrialStatus
    epochs_done: int
    epochs: int
    validation: tuple[str, float | None] = ("SER", None)  # as `goals.validated` gives it
    epsilon: float | None = None
    seconds_per_epoch: float | None = None
    reason: str = ""  # why it failed
    phase: str = ""  # what a running trial does besides training


def live_table(
    name: str, progress: Mapping[str, Progress], *, summary: str, max_rows: int = 30
) -> Table:
    """What happens now: the running trials, and the newest ended ones as far as there is room."""
    table = Table(title=name, caption=summary, caption_justify="left")
    table.add_column("trial", overflow="ellipsis", no_wrap=True)
    table.add_column("status")
    for column in ("epoch", "validation", "epsilon spent", "epoch takes"):
        table.add_column(column, justify="right")
    rows = list(progress.values())
    running = [row for row in rows if row.status is TrialStatus.RUNNING]
    ended = [row for row in rows if row.status.is_over or row.status is TrialStatus.REFUSED]
    room = max(0, max_rows - len(running))
    for row in [*(ended[-room:] if room else []), *running[:max_rows]]:
        table.add_row(
            Text(row.name),
            Text(row.phase or row.status, style=STYLES[row.status]),
            f"{row.epochs_done}/{row.epochs}",
            f"{row.validation[0]} {formats.number(row.validation[1])}",
            formats.epsilon(row.epsilon),
            formats.duration(row.seconds_per_epoch),
        )
    return table

"""The progress of a sweep as a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from sweep.results.tables.axes import curve, setting_columns, short_ids, varied_paths
from sweep.results.tables.fitting import Column, FittedTable
from sweep.results.tables.trials import STYLES
from sweep.store.plans import PlannedTrial
from sweep.store.status import TrialStatus
from trainables import formats


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a running trial; `epsilon` is its spend. `plan` is None where it must not be
    shown yet; `name` is shown instead.
    """

    name: str
    status: TrialStatus
    epochs_done: int
    epochs: int
    plan: PlannedTrial | None = None
    validation: tuple[str, float | None] = ("SER", None)  # as `goals.validated` gives it
    by_epoch: tuple[float, ...] = ()  # earlier validation figures
    epsilon: float | None = None
    seconds_per_epoch: float | None = None
    reason: str = ""  # reason of a failure, or why a planned trial may not run
    phase: str = ""  # phase of a running trial outside of training

    @property
    def trains_no_more(self) -> bool:
        """Whether the trial has ended its training in this run without a result."""
        is_denied = self.status is TrialStatus.PLANNED and bool(self.reason)
        return is_denied or self.status is TrialStatus.FAILED


def live_table(
    name: str, progress: Mapping[str, Progress], *, summary: str, max_rows: int = 30
) -> FittedTable:
    """The running trials, and the newest ended ones below them."""
    running = [key for key, row in progress.items() if row.status is TrialStatus.RUNNING]
    ended = [
        key
        for key, row in progress.items()
        if row.status.is_over or row.status is TrialStatus.REFUSED
    ]
    keys = [*running, *reversed(ended)][:max_rows]
    rows = [progress[key] for key in keys]
    columns, together = _trials(keys, progress)
    words = {row.validation[0] for row in rows}
    what = f"validation {words.pop()}" if len(words) == 1 else ""
    columns += [
        Column(
            head="status",
            cells=[Text(row.phase or row.status, style=STYLES[row.status]) for row in rows],
            is_left=True,
        ),
        Column(head="epoch", cells=[f"{row.epochs_done}/{row.epochs}" for row in rows]),
        Column(head=what or "validation", cells=[_validation(row, what) for row in rows]),
        Column(
            head="by epoch",
            cells=[curve(row.by_epoch) for row in rows],
            worth=10,
            is_left=True,
        ),
        Column(head="epsilon spent", cells=[formats.epsilon(row.epsilon) for row in rows]),
        Column(
            head="epoch takes",
            cells=[formats.duration(row.seconds_per_epoch) for row in rows],
            worth=30,
        ),
    ]
    return FittedTable(
        title=f"{name}: {summary}", columns=columns, settings=together, says_what_is_left_out=False
    )


def _trials(
    keys: Sequence[str], progress: Mapping[str, Progress]
) -> tuple[list[Column], Column | None]:
    plans = [progress[key].plan for key in keys]
    known = [plan for plan in plans if plan is not None]
    if len(known) < len(plans) or not known:
        names = [progress[key].name for key in keys]
        return [Column(head="trial", cells=names, is_text=True)], None
    ids = short_ids(list(progress))
    everything = [row.plan for row in progress.values() if row.plan is not None]
    apart, together = setting_columns(
        known, varied_paths(everything), more_to_come=len(known) < len(everything)
    )
    return [
        Column(head="id", cells=[ids[key] for key in keys], worth=90, is_left=True),
        *apart,
    ], together


def _validation(row: Progress, what: str) -> str:
    value = formats.number(row.validation[1])
    return value if what else f"{row.validation[0]} {value}"

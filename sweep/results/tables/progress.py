"""The progress of a sweep, and its table. No screen and no disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rich.text import Text

from sweep.results.tables.axes import trial_columns
from sweep.results.tables.fitting import Column, FittedTable
from sweep.results.tables.trials import STYLES
from sweep.store.plans import PlannedTrial
from sweep.store.state import TrialRecord, TrialStatus
from trainables import formats
from trainables.config import objectives


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a running trial; `epsilon` is its spend. `plan` is None where it must
    not be shown yet; `name` is shown instead.
    """

    name: str
    status: TrialStatus
    epochs_done: int
    epochs: int
    plan: PlannedTrial | None = None
    validation: tuple[str, float | None] = (
        "SER",
        None,
    )  # as `goals.validated` gives it
    epsilon: float | None = None
    seconds_per_epoch: float | None = None
    reason: str = ""  # reason of a failure, or why a planned trial may not run
    phase: str = ""  # phase of a running trial outside of training

    @classmethod
    def of(cls, record: TrialRecord) -> Progress:
        """That of a trial that no process trains; one that is run again is planned."""
        return cls(
            name=record.plan.name,
            status=TrialStatus.PLANNED if record.status.is_resumed else record.status,
            epochs_done=record.epochs_done,
            epochs=record.plan.epochs,
            plan=record.plan,
            validation=objectives.validation_figure(record.metrics),
            epsilon=record.metrics.get("epsilon_spent"),
        )


def live_table(
    name: str, progress: Mapping[str, Progress], *, summary: str, max_rows: int = 30
) -> FittedTable:
    """The running trials, and the newest ended ones below them."""
    running = [
        key for key, row in progress.items() if row.status is TrialStatus.RUNNING
    ]
    ended = [
        key
        for key, row in progress.items()
        if row.status.is_over or row.status is TrialStatus.REFUSED
    ]
    keys = [*running, *reversed(ended)][:max_rows]
    rows = [progress[key] for key in keys]
    plans = [row.plan for row in rows if row.plan is not None]
    together = None
    if len(plans) < len(rows) or not rows:
        columns = [Column(head="trial", cells=[row.name for row in rows], is_text=True)]
    else:
        every = [row.plan for row in progress.values() if row.plan is not None]
        is_more_to_come = len(plans) < len(every)
        columns, together = trial_columns(
            plans, every, worth=90, more_to_come=is_more_to_come
        )
    words = {row.validation[0] for row in rows}
    what = f"validation {words.pop()}" if len(words) == 1 else ""
    columns += [
        Column(
            head="status",
            cells=[
                Text(row.phase or row.status, style=STYLES[row.status]) for row in rows
            ],
            is_left=True,
        ),
        Column(head="epoch", cells=[f"{row.epochs_done}/{row.epochs}" for row in rows]),
        Column(
            head=what or "validation",
            cells=[
                ("" if what else f"{row.validation[0]} ")
                + formats.number(row.validation[1])
                for row in rows
            ],
        ),
        Column(
            head="epsilon spent", cells=[formats.epsilon(row.epsilon) for row in rows]
        ),
        Column(
            head="epoch takes",
            cells=[formats.duration(row.seconds_per_epoch) for row in rows],
            worth=30,
        ),
    ]
    return FittedTable(
        title=f"{name}: {summary}", columns=columns, settings=together, is_live=True
    )


def _passes_per_epoch(plan: PlannedTrial, epochs: int) -> float:
    """How often an epoch passes all records, many times with full batches; 1 where not
    known.
    """
    privacy, training = (plan.fields.get(name, {}) for name in ("privacy", "training"))
    whole, batch = (
        privacy.get("sampling") == "full",
        training.get("expected_batch_size"),
    )
    if not (plan.steps and plan.num_records and epochs) or not (whole or batch):
        return 1.0
    return float(plan.steps / epochs * (1.0 if whole else batch / plan.num_records))


class View:
    """The progress of every trial, shared by the updating code and the display.

    `num_expected`: number of all trials, including those that a search is still to
    choose. `phase_of`: the phase of a running trial outside of training, where known.
    """

    def __init__(
        self,
        name: str,
        *,
        num_expected: int = 0,
        phase_of: Callable[[str], str] = lambda trial_id: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.phase = (
            ""  # of the sweep as a whole; empty where those of its trials suffice
        )
        self._name = name
        self._phase_of = phase_of
        self._num_expected = num_expected
        self._clock = clock
        self._lock = threading.RLock()
        self._progress: dict[str, Progress] = {}
        self._started = clock()
        self._course: list[
            tuple[float, float]
        ] = []  # since a trial runs: finished epochs, time

    def update(self, trial_id: str, progress: Progress) -> tuple[Progress, Progress]:
        """Update the progress of a trial; missing figures keep their last values.
        Returns what was known before, if anything, and what is known now.
        """
        with self._lock:
            if not self._course and progress.status is TrialStatus.RUNNING:
                self._course.append((self._epochs()[0], self._clock()))
            before = self._progress.pop(trial_id, progress)
            missing = [
                n
                for n in ("epsilon", "seconds_per_epoch")
                if getattr(progress, n) is None
            ]
            if progress.validation[1] is None:
                missing.append("validation")
            kept = {name: getattr(before, name) for name in missing}
            self._progress[trial_id] = now = replace(progress, **kept)
            if self._course:
                self._course.append((self._epochs()[0], self._clock()))
            return before, now

    def table(self, *, max_rows: int) -> FittedTable:
        """The present state."""
        with self._lock:
            rows = {
                trial_id: replace(row, phase=self._phase_of(trial_id))
                if row.status is TrialStatus.RUNNING
                else row
                for trial_id, row in self._progress.items()
            }
            summary = self.summary(formats.duration(self._clock() - self._started))
        if self.phase:
            summary = f"{self.phase}: {summary}"
        return live_table(self._name, rows, summary=summary, max_rows=max_rows)

    def summary(self, *elapsed: str) -> str:
        """The number of ended trials and the estimated remaining time, in words."""
        with self._lock:
            rows = self._rows()
            ended = sum(row.status.is_over for row in rows)
            words = [f"{ended} of {max(len(rows), self._num_expected)} done", *elapsed]
            done, total = self._epochs()
            # The speed is that of the later half of the epochs: the first one has what
            # happens once, such as a shadow model.
            if self._course and (before := self._course[0][0]) < done < total:
                half = (before + done) / 2
                by_then, when = next(
                    each for each in reversed(self._course) if each[0] <= half
                )
                left = (self._clock() - when) * (total - done) / (done - by_then)
                words.append(f"about {formats.duration(left)} left")
            return ", ".join(words)

    def _rows(self) -> list[Progress]:
        return [
            row
            for row in self._progress.values()
            if row.status is not TrialStatus.REFUSED
        ]

    def _epochs(self) -> tuple[float, float]:
        """Finished epochs, and those of all trials, each times its passes over the
        records; a trial still to be chosen counts the mean.
        """
        rows = self._rows()
        known = [_passes_per_epoch(row.plan, row.epochs) for row in rows if row.plan]
        passes = known if len(known) == len(rows) else [1.0] * len(rows)
        total = sum(row.epochs * each for row, each in zip(rows, passes, strict=True))
        total *= max(1.0, self._num_expected / (len(rows) or 1))
        done = 0.0
        for row, each in zip(rows, passes, strict=True):
            # Most trials end early where a scheduler stops some, so those count as
            # trained.
            done += each * (row.epochs if row.status.is_finished else row.epochs_done)
            is_denied = row.status is TrialStatus.PLANNED and bool(row.reason)
            if is_denied or row.status is TrialStatus.FAILED:  # in this run
                total -= each * (row.epochs - row.epochs_done)
        return done, total

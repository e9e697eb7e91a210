"""The state of a sweep, which is its log read from the first entry to the last. No disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from sweep.store import entries as log
from sweep.store import plans
from sweep.store.files import number
from trainables.cards.card import PrivacyCard
from trainables.errors import InvalidData
from trainables.figures import ATTACKS


class TrialStatus(StrEnum):
    """The status by a trial's files; its value is the word in JSON and tables.

    refused      the plan does not run it
    planned      nothing has run yet
    running      a live process trains it
    interrupted  epochs have run, and no process trains it now
    done         trained to its last epoch and measured
    stopped      stopped early (scheduler, budget), and measured
    failed       raised an error, `sweep resume` tries it again
    """

    REFUSED = "refused"
    PLANNED = "planned"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_finished(self) -> bool:
        """Whether it has a result: done or stopped."""
        return self in (TrialStatus.DONE, TrialStatus.STOPPED)

    @property
    def is_over(self) -> bool:
        """Whether it has ended in this run of the sweep: finished or failed."""
        return self.is_finished or self is TrialStatus.FAILED

    @property
    def is_pending(self) -> bool:
        """Whether it is planned, running or interrupted."""
        return not self.is_over and self is not TrialStatus.REFUSED

    @property
    def has_begun(self) -> bool:
        """Whether any epoch has run."""
        return self not in (TrialStatus.REFUSED, TrialStatus.PLANNED)

    @property
    def is_resumed(self) -> bool:
        """Whether `sweep resume` runs it: pending or failed."""
        return self.is_pending or self is TrialStatus.FAILED


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """The record of one trial. `metrics` are the final ones, else the last epoch's, and those of
    the comparison with other trials. `violation` has a certified bound on epsilon and the claim
    that it violates. `ended_at`: when its result was written.
    """

    plan: plans.PlannedTrial
    status: TrialStatus
    epochs_done: int
    metrics: dict[str, float | None]
    seconds: float
    reason: str | None
    notes: tuple[str, ...] = ()
    privacy: PrivacyCard | None = None
    violation: dict[str, float] | None = None
    ended_at: float | None = None


_RECORDS = TypeAdapter(list[TrialRecord])


@dataclass
class TrialState:
    """One trial. `rows` are the epochs that count; `seconds` are those of every epoch that was
    trained. `is_taken_up`: the user continued it after it was stopped.
    """

    rows: list[log.EpochRow] = field(default_factory=list)
    seconds: float = 0.0
    last_epoch: int = 0  # of the last report; a smaller one repeats epochs
    has_started: bool = False
    result: log.Result | None = None
    failed: str | None = None
    denied: str | None = None
    panel: log.Panel | None = None
    is_taken_up: bool = False

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return self.rows[-1]["epochs_done"] if self.rows else 0

    @property
    def has_begun(self) -> bool:
        """Whether an epoch of the trial was ever permitted."""
        return bool(self.rows) if self.denied is not None else self.has_started

    def add_epoch(self, row: log.EpochRow) -> None:
        """Count an epoch instead of those from its number on."""
        done = row["epochs_done"]
        if done > self.last_epoch:
            self.seconds += row["seconds"]
        self.last_epoch = done
        while self.rows and self.rows[-1]["epochs_done"] >= done:
            self.rows.pop()
        if done:
            self.rows.append(row)

    def status(self, *, runs: bool, running: bool) -> TrialStatus:
        """The status. `runs`: the plan does not refuse it; `running`: a process runs the sweep."""
        if self.result is not None:
            return TrialStatus.STOPPED if self.result["stopped_early"] else TrialStatus.DONE
        if not runs:
            return TrialStatus.REFUSED
        if self.failed is not None:
            return TrialStatus.FAILED
        if not self.has_begun:
            return TrialStatus.PLANNED
        running = running and self.denied is None
        return TrialStatus.RUNNING if running else TrialStatus.INTERRUPTED

    def record(self, plan: plans.PlannedTrial, *, running: bool) -> TrialRecord:
        """The record of the trial with this plan."""
        status = self.status(runs=plan.runs, running=running)
        if self.result is None:
            denied = self.denied if plan.runs else None
            return TrialRecord(
                plan=plan,
                status=status,
                epochs_done=len(self.rows),
                metrics=with_leakage(self.rows[-1]["metrics"] if self.rows else {}),
                seconds=self.seconds,
                reason=self.failed if status is TrialStatus.FAILED else denied or plan.reason,
            )
        result = self.result
        panel = self.panel or {"metrics": {}, "notes": [], "violation": None, "time": 0.0}
        return TrialRecord(
            plan=plan,
            status=status,
            epochs_done=result["epochs_done"],
            metrics=with_leakage(result["metrics"] | panel["metrics"]),
            seconds=float(result["seconds"].get("total") or self.seconds),
            # A scheduler also ends trials after their last epoch, which stops nothing.
            reason=result["reason"] if result["stopped_early"] else None,
            notes=(*result["notes"], *panel["notes"]),
            privacy=result["privacy"],
            violation=panel["violation"],
            ended_at=result["time"],
        )


class SweepState:
    """What the entries of a sweep's log, added in their order, come to."""

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self.space: dict[str, Any] = {}  # as `SearchSpace.document` has it
        self.seconds_run = 0.0
        self.search_denied: str | None = None
        self._earlier: list[Mapping[str, Any]] | None = None
        self._trials: dict[str, TrialState] = {}
        self._plan: log.PlanRow | None = None
        self._rows: dict[str, log.TrialRow] = {}  # of the plan and of what a search has chosen

    def add(self, entry: log.SweepEntry) -> None:
        """Add the next entry."""
        match entry:
            case log.Made(about=facts) | log.Noted(facts=facts):
                self.about |= facts
            case log.Planned(plan=plan, space=space):
                self.space = space
                self._plan, self._rows = plan, {row["id"]: row for row in plan["trials"]}
                self.__dict__.pop("plan", None)
            case log.Chosen(trials=rows):
                new = {row["id"]: row for row in rows if row["id"] not in self._rows}
                self._rows |= new
                if "plan" in self.__dict__:
                    more = tuple(map(plans.trial_from, new.values()))
                    self.plan = replace(self.plan, trials=(*self.plan.trials, *more))
            case log.SearchDenied(reason=reason):
                self.search_denied = reason
            case log.Earlier(records=records):
                self._earlier = records
            case log.Ran(seconds=seconds):
                self.seconds_run = seconds
            case log.Released(trial=name, epochs=rows, result=result):
                released = self._trials[name] = TrialState(has_started=True, result=result)
                for row in rows:
                    released.add_epoch(row)
            case _:
                self._add_of_trial(self._trials.setdefault(entry.trial, TrialState()), entry)

    def _add_of_trial(
        self, trial: TrialState, entry: log.Turn | log.Epoch | log.Ended | log.Compared
    ) -> None:
        match entry:
            case log.Turn(entry="begun"):
                trial.has_started, trial.failed, trial.denied = True, None, None
            case log.Turn(entry="denied", reason=reason):
                trial.denied = reason
            case log.Turn(entry="failed", reason=reason):
                trial.failed = reason
            case log.Turn(entry="reopened"):
                trial.result, trial.panel, trial.is_taken_up = None, None, True
            case log.Epoch(row=row):
                trial.add_epoch(row)
            case log.Ended(result=result):
                trial.result = result
            case log.Compared(panel=panel):
                trial.panel = panel

    @cached_property
    def plan(self) -> plans.Plan:
        """The plan with all that a search has chosen.

        Raises: InvalidData where its fields make none.
        """
        return plans.from_dict({**(self._plan or {}), "trials": list(self._rows.values())})

    def trial(self, trial_id: str) -> TrialState:
        """The state of a trial; a new one where nothing has become of it yet."""
        return self._trials.get(trial_id) or TrialState()

    @property
    def begun(self) -> set[str]:
        """Ids of the trials of which an epoch was ever permitted."""
        return {trial_id for trial_id, trial in self._trials.items() if trial.has_begun}

    def statuses(self, *, running: bool) -> Counter[TrialStatus]:
        """The number of trials by status, without the trials' plans, which take long to parse."""
        return Counter(
            self.trial(row["id"]).status(runs=row["reason"] is None, running=running)
            for row in self._rows.values()
        )

    @property
    def earlier_trials(self) -> list[TrialRecord] | None:
        """The records of other sweeps' trials that the search started from, or None."""
        if self._earlier is None:
            return None
        try:
            return _RECORDS.validate_python(self._earlier)
        except (TypeError, ValueError):
            raise InvalidData("expected earlier trials as they were written") from None


def earlier_entry(records: Iterable[TrialRecord]) -> log.Earlier:
    """The entry from which `SweepState.earlier_trials` makes the records again."""
    return log.Earlier(records=_RECORDS.dump_python(list(records), by_alias=True))


def with_leakage(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Stored metrics, extended by the figures of the strongest attack."""
    found = {name: number(value) for name, value in metrics.items()}
    if any(name.startswith(ATTACKS) for name in found):
        from trainables.attacks import strongest  # SciPy, only where attacks ran

        best = strongest(found)
        found |= {} if best is None else best.figures()
    return found

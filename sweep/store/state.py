"""The state of a sweep, which is its log read from the first entry to the last. No disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sweep.store import entries as log
from sweep.store.entries import TrialRecord as TrialRecord  # re-exported, as is the next
from sweep.store.entries import TrialStatus as TrialStatus
from sweep.store.plans import Plan, PlannedTrial
from trainables.figures import ATTACKS

_NO_PANEL: log.Panel = {"metrics": {}, "notes": [], "violation": None, "time": 0.0}


@dataclass
class TrialState:
    """One trial. `rows` are the epochs that count; `seconds` are those of every epoch that was
    trained.
    """

    rows: list[log.EpochRow] = field(default_factory=list)
    seconds: float = 0.0
    last_epoch: int = 0  # of the last report; a smaller one repeats epochs
    has_started: bool = False
    result: log.Result | None = None
    failed: str | None = None
    denied: str | None = None
    panel: log.Panel | None = None

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return self.rows[-1]["epochs_done"] if self.rows else 0

    @property
    def seconds_spent(self) -> float:
        """Seconds so far, those of measuring included once it has its result."""
        return (self.result and self.result["seconds"].get("total")) or self.seconds

    @property
    def is_over(self) -> bool:
        """Whether it has ended: it has its result, or failed."""
        return self.result is not None or self.failed is not None

    @property
    def has_begun(self) -> bool:
        """Whether an epoch of the trial was ever permitted."""
        return bool(self.rows) if self.denied is not None else self.has_started

    def add(self, entry: log.Turn | log.Epoch | log.Ended | log.Compared) -> None:
        """Add the next entry about the trial."""
        match entry:
            case log.Turn(entry="begun"):
                self.has_started, self.failed, self.denied = True, None, None
            case log.Turn(entry="denied", reason=reason):
                self.denied = reason
            case log.Turn(entry="failed", reason=reason):
                self.failed = reason
            case log.Epoch(row=row):
                self.add_epoch(row)
            case log.Ended(result=result):
                self.result = result
            case log.Compared(panel=panel):
                self.panel = panel

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

    def record(self, plan: PlannedTrial, *, running: bool) -> TrialRecord:
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
        result, panel = self.result, self.panel or _NO_PANEL
        return TrialRecord(
            plan=plan,
            status=status,
            epochs_done=result["epochs_done"],
            metrics=with_leakage(result["metrics"] | panel["metrics"]),
            seconds=self.seconds_spent,
            # A scheduler also ends trials after their last epoch, which stops nothing.
            reason=result["reason"] if result["stopped_early"] else None,
            notes=(*result["notes"], *panel["notes"]),
            privacy=result["privacy"],
            violation=panel["violation"],
            ended_at=result["time"],
        )


class SweepState:
    """What the entries of a sweep's log, added in their order, come to. `space` is as
    `SearchSpace.document` has it; `planned` are the trials of the plan and those that a search has
    chosen.
    """

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self.space: dict[str, Any] = {}
        self.planned: dict[str, PlannedTrial] = {}
        self._plan = Plan(name="", trials=())
        self._trials: dict[str, TrialState] = {}

    def add(self, entry: log.SweepEntry) -> None:
        """Add the next entry."""
        match entry:
            case log.Made(about=about):
                self.about = about.model_dump()
            case log.Noted(facts=facts):
                self.about |= facts
            case log.Planned(plan=plan, space=space):
                self._plan, self.space = plan, space
                self.planned = {trial.id: trial for trial in plan.trials}
            case log.Chosen(trials=trials):
                for trial in trials:
                    self.planned.setdefault(trial.id, trial)
            case log.Released(trial=name, epochs=rows, result=result):
                released = self._trials[name] = TrialState(has_started=True, result=result)
                for row in rows:
                    released.add_epoch(row)
            case _:
                self._trials.setdefault(entry.trial, TrialState()).add(entry)

    @property
    def plan(self) -> Plan:
        """The plan with all that a search has chosen."""
        return replace(self._plan, trials=tuple(self.planned.values()))

    def trial(self, trial_id: str) -> TrialState:
        """The state of a trial; a new one where nothing has become of it yet."""
        return self._trials.get(trial_id) or TrialState()

    @property
    def begun(self) -> set[str]:
        """Ids of the trials of which an epoch was ever permitted."""
        return {trial_id for trial_id, trial in self._trials.items() if trial.has_begun}

    def statuses(self, *, running: bool) -> Counter[TrialStatus]:
        """The number of trials by status, faster than their records."""
        return Counter(
            self.trial(name).status(runs=trial.runs, running=running)
            for name, trial in self.planned.items()
        )


def with_leakage(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """Metrics, extended by the figures of the strongest attack."""
    found = dict(metrics)
    if any(name.startswith(ATTACKS) for name in found):
        from trainables.attacks import strongest  # SciPy, only where attacks ran

        best = strongest(found)
        found |= {} if best is None else best.figures()
    return found

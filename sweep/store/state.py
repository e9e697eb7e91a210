"""The entries of a sweep's log, and the state of the sweep, which is what they come to.
No disk. Fields of facts, epochs and results that are not named here are kept unchanged.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, TypeAdapter
from typing_extensions import TypedDict

from sweep.store.plans import Plan, PlannedTrial
from trainables.cards.card import PrivacyCard
from trainables.fields import MAX_EPOCHS
from trainables.figures import ATTACKS

# Stages of generation add up their epochs.
Epochs = Annotated[int, Field(ge=0, le=10 * MAX_EPOCHS, strict=True)]
Figure = float | None  # an infinity is text on the disk
_OPEN = ConfigDict(extra="allow")


class TrialStatus(StrEnum):
    """What became of a trial. Its value is the word in JSON and tables. It is derived
    from the log and from whether a process runs the sweep (`TrialState.status`), never
    stored.
    """

    REFUSED = "refused"  # the plan does not run it
    PLANNED = "planned"  # nothing has run yet
    RUNNING = "running"  # a live process trains it
    INTERRUPTED = "interrupted"  # epochs have run, and no process trains it now
    DONE = "done"  # trained to its last epoch and measured
    STOPPED = "stopped"  # stopped early (scheduler, budget), and measured
    FAILED = "failed"  # raised an error, `sweep resume` tries it again

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
    """What tables show of one trial: its plan and status, the number of finished
    epochs, and `seconds` of training and measuring. `metrics` are the final ones, else
    those of the last epoch, with those of the comparison with other trials; a figure of
    None could not be computed. `reason` says why it failed, was stopped or waits.
    `violation` is as in `LeakageReport`, `ended_at` in seconds since 1970.
    """

    plan: PlannedTrial
    status: TrialStatus
    epochs_done: int
    metrics: dict[str, Figure]
    seconds: float
    reason: str | None
    notes: tuple[str, ...] = ()
    privacy: PrivacyCard | None = None
    violation: dict[str, float] | None = None
    ended_at: float | None = None  # when its result was written
    # The sweep that has trained it, by its name in the ledger, where it is another.
    taken_from: str | None = None


class EpochRow(TypedDict):
    """A finished epoch of a trial: its number from 1 on, the `seconds` that it took,
    the `time` at which it was recorded (seconds since 1970) and its metrics. In a log
    it replaces the rows from its number on; number 0: the trial begins anew.
    """

    __pydantic_config__ = _OPEN  # type: ignore[misc]
    epochs_done: Epochs
    seconds: float
    time: float
    metrics: dict[str, Figure]


class Result(TypedDict):
    """The result of a trial that has ended without an error (`TrialResult`);
    `taken_from` is the sweep that has trained it, where it is another one.
    """

    __pydantic_config__ = _OPEN  # type: ignore[misc]
    epochs_done: Epochs
    metrics: dict[str, Figure]
    notes: list[str]
    privacy: PrivacyCard | None
    reason: str | None
    seconds: dict[str, Figure]
    stopped_early: bool
    time: float
    taken_from: NotRequired[str]


class LeakageReport(TypedDict):
    """The comparison of a trial with others; `violation` has a certified bound on
    epsilon and the claim that it violates.
    """

    metrics: dict[str, Figure]
    notes: list[str]
    violation: dict[str, float] | None
    time: float


NO_LEAKAGE_REPORT: LeakageReport = {
    "metrics": {},
    "notes": [],
    "violation": None,
    "time": 0.0,
}


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True)


class About(_Entry):
    """How a sweep was made."""

    model_config = _OPEN
    id: str
    created: StrictFloat
    command: list[str] = []
    git_commit: str | None = None
    versions: dict[str, str] = {}


class SweepCreated(_Entry):
    """The first entry."""

    entry: Literal["made"] = "made"
    about: About


class MetadataAdded(_Entry):
    """Facts that are added to those of the sweep."""

    entry: Literal["noted"] = "noted"
    facts: dict[str, Any]


class PlanSet(_Entry):
    """The plan and its space (`SearchSpace.document`), instead of earlier ones."""

    entry: Literal["planned"] = "planned"
    plan: Plan
    space: dict[str, Any]
    facts: dict[str, Any] = {}  # added to those of the sweep


class TrialsSuggested(_Entry):
    """The trials of one choice of an adaptive search: those of one configuration, one a
    seed, or a refused one.
    """

    entry: Literal["chosen"] = "chosen"
    trials: tuple[PlannedTrial, ...]


class OfTrial(_Entry):
    """An entry about one trial."""

    trial: str


class StatusChanged(OfTrial):
    """The trial is about to be charged for its next epoch (`begun`), may not spend it
    (`denied`), or has failed (`failed`). `reason` is a sentence for people, empty for
    `begun`; `time` is in seconds since 1970, 0 where it is not kept.
    """

    entry: Literal["begun", "denied", "failed"]
    reason: str = ""
    time: float = 0.0


class Epoch(OfTrial):
    """An epoch of a trial has ended, and this is what it has measured."""

    entry: Literal["epoch"] = "epoch"
    row: EpochRow


class TrialFinished(OfTrial):
    """The trial has its result."""

    entry: Literal["ended"] = "ended"
    result: Result


class LeakageMeasured(OfTrial):
    """The trial was compared with others."""

    entry: Literal["compared"] = "compared"
    panel: LeakageReport


class Released(OfTrial):
    """All that is shown of a trial from a vault, or from another sweep, which the
    result then names.
    """

    entry: Literal["released"] = "released"
    epochs: list[EpochRow]
    result: Result


SweepEntry = (
    SweepCreated
    | MetadataAdded
    | PlanSet
    | TrialsSuggested
    | StatusChanged
    | Epoch
    | TrialFinished
    | LeakageMeasured
    | Released
)
SWEEP_ENTRY: TypeAdapter[SweepEntry] = TypeAdapter(
    Annotated[SweepEntry, Field(discriminator="entry")]
)


@dataclass
class TrialState:
    """One trial. `rows` are the epochs that count, `seconds` those of every trained
    epoch; `furthest` is the largest number of epochs that it ever had.
    """

    rows: list[EpochRow] = field(default_factory=list)
    furthest: int = 0
    seconds: float = 0.0
    has_started: bool = False
    result: Result | None = None
    failed: str | None = None
    denied: str | None = None
    panel: LeakageReport | None = None

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return self.rows[-1]["epochs_done"] if self.rows else 0

    @property
    def most_charged(self) -> int:
        """The most epochs that a ledger can have of it: one more than have ended."""
        most = max(self.furthest, self.result["epochs_done"] if self.result else 0)
        return most + 1 if self.has_started else 0

    @property
    def is_over(self) -> bool:
        """Whether it has ended: it has its result, or failed."""
        return self.result is not None or self.failed is not None

    @property
    def has_begun(self) -> bool:
        """Whether an epoch was ever permitted."""
        return bool(self.rows) if self.denied is not None else self.has_started

    @property
    def taken_from(self) -> str | None:
        """The sweep that has trained it, by its name in the ledger, where it is another
        one.
        """
        return self.result.get("taken_from") if self.result else None

    def add(
        self, entry: StatusChanged | Epoch | TrialFinished | LeakageMeasured
    ) -> None:
        """Add the next entry about the trial."""
        match entry:
            case StatusChanged(entry="begun"):
                self.has_started, self.failed, self.denied = True, None, None
            case StatusChanged(entry="denied", reason=reason):
                self.denied = reason
            case StatusChanged(entry="failed", reason=reason):
                self.failed = reason
            case Epoch(row=row):
                self.add_epoch(row)
            case TrialFinished(result=result):
                self.result = result
            case LeakageMeasured(panel=panel):
                self.panel = panel

    def add_epoch(self, row: EpochRow) -> None:
        """Count an epoch instead of those from its number on."""
        done = row["epochs_done"]
        self.furthest = max(self.furthest, done)
        if done > self.epochs_done:  # else it repeats epochs
            self.seconds += row["seconds"]
        while self.rows and self.rows[-1]["epochs_done"] >= done:
            self.rows.pop()
        if done:
            self.rows.append(row)

    def status(self, *, runs: bool, running: bool) -> TrialStatus:
        """The status. `runs`: the plan does not refuse it; `running`: a process runs
        the sweep.
        """
        if self.result is not None:
            return (
                TrialStatus.STOPPED
                if self.result["stopped_early"]
                else TrialStatus.DONE
            )
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
            return TrialRecord(
                plan=plan,
                status=status,
                epochs_done=len(self.rows),
                metrics=with_leakage(self.rows[-1]["metrics"] if self.rows else {}),
                seconds=self.seconds,
                reason=self.failed
                if status is TrialStatus.FAILED
                else plan.reason or self.denied,
            )
        result, panel = self.result, self.panel or NO_LEAKAGE_REPORT
        return TrialRecord(
            plan=plan,
            status=status,
            epochs_done=result["epochs_done"],
            metrics=with_leakage(result["metrics"] | panel["metrics"]),
            seconds=result["seconds"].get("total")
            or self.seconds,  # those of measuring, too
            # A scheduler also ends trials after their last epoch, which stops nothing.
            reason=result["reason"] if result["stopped_early"] else None,
            notes=(*result["notes"], *panel["notes"]),
            privacy=result["privacy"],
            violation=panel["violation"],
            ended_at=result["time"],
            taken_from=self.taken_from,
        )


class SweepState:
    """The state of a sweep: what the entries of its log, added in their order, come to.
    The same entries always give the same state. `space` is a `SearchSpace.document`;
    `planned` has the trials by their ids, those that a search has chosen included;
    `about` says how the sweep was made and what was noted since.
    """

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self.space: dict[str, Any] = {}
        self.planned: dict[str, PlannedTrial] = {}
        self._plan = Plan(name="", trials=())
        self._trials: dict[str, TrialState] = {}

    def add(self, entry: SweepEntry) -> None:
        """Add the next entry."""
        match entry:
            case SweepCreated(about=about):
                self.about = about.model_dump()
            case MetadataAdded(facts=facts):
                self.about |= facts
            case PlanSet(plan=plan, space=space, facts=facts):
                self._plan, self.space = plan, space
                self.about |= facts
                self.planned = {trial.id: trial for trial in plan.trials}
            case TrialsSuggested(trials=trials):
                for trial in trials:
                    self.planned.setdefault(trial.id, trial)
            case Released(trial=name, epochs=rows, result=result):
                released = self._trials[name] = TrialState(
                    has_started=True, result=result
                )
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
        """The number of trials by status."""
        return Counter(
            self.trial(name).status(runs=trial.runs, running=running)
            for name, trial in self.planned.items()
        )


def with_leakage(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """A copy of `metrics` with the figures of the strongest attack among them, where
    any attack was measured. A figure of None could not be computed.
    """
    found = dict(metrics)
    if any(name.startswith(ATTACKS) for name in found):
        from trainables.attacks import strongest  # SciPy, only where attacks ran

        if (best := strongest(found)) is not None:
            found |= best.figures()
    return found

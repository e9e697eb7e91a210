"""The entries of a sweep's log, oldest first: how it was made, its plan, what became of its trials.

Fields of facts, epochs and results that are not named here are kept unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, TypeAdapter
from typing_extensions import TypedDict

from sweep.store.plans import Plan, PlannedTrial
from trainables.cards.card import PrivacyCard
from trainables.frozen import MAX_EPOCHS

# Stages of generation add up their epochs.
Epochs = Annotated[int, Field(ge=0, le=10 * MAX_EPOCHS, strict=True)]
Figure = float | None  # an infinity is text on the disk
_OPEN = ConfigDict(extra="allow")


class TrialStatus(StrEnum):
    """What became of a trial; its value is the word in JSON and tables.

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

    plan: PlannedTrial
    status: TrialStatus
    epochs_done: int
    metrics: dict[str, Figure]
    seconds: float
    reason: str | None
    notes: tuple[str, ...] = ()
    privacy: PrivacyCard | None = None
    violation: dict[str, float] | None = None
    ended_at: float | None = None


class EpochRow(TypedDict):
    """A finished epoch. It replaces those from its number on; 0: the trial begins anew."""

    __pydantic_config__ = _OPEN  # type: ignore[misc]
    epochs_done: Epochs
    seconds: float
    time: float
    metrics: dict[str, Figure]


class Result(TypedDict):
    """The result of a trial that has ended without an error (`TrialResult`)."""

    __pydantic_config__ = _OPEN  # type: ignore[misc]
    epochs_done: Epochs
    metrics: dict[str, Figure]
    notes: list[str]
    privacy: PrivacyCard | None
    reason: str | None
    seconds: dict[str, Figure]
    stopped_early: bool
    time: float


class Panel(TypedDict):
    """The comparison of a trial with others; `violation` has a certified bound on epsilon and the
    claim that it violates.
    """

    metrics: dict[str, Figure]
    notes: list[str]
    violation: dict[str, float] | None
    time: float


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True)


class About(_Entry):
    """Of a sweep: its id, when it was created, by which command, with which versions."""

    model_config = _OPEN
    id: str
    created: StrictFloat
    command: list[str] = []
    git_commit: str | None = None
    versions: dict[str, str] = {}


class Made(_Entry):
    """The first entry."""

    entry: Literal["made"] = "made"
    about: About


class Noted(_Entry):
    """Facts that are added to those of the sweep."""

    entry: Literal["noted"] = "noted"
    facts: dict[str, Any]


class Planned(_Entry):
    """The plan and its space (`SearchSpace.document`), instead of earlier ones."""

    entry: Literal["planned"] = "planned"
    plan: Plan
    space: dict[str, Any]


class Chosen(_Entry):
    """The trials of one choice of a search."""

    entry: Literal["chosen"] = "chosen"
    trials: tuple[PlannedTrial, ...]


class OfTrial(_Entry):
    """An entry about one trial."""

    trial: str


class Turn(OfTrial):
    """The trial is about to be charged for its next epoch (begun), may not spend it (denied), or
    has failed.
    """

    entry: Literal["begun", "denied", "failed"]
    reason: str = ""
    time: float = 0.0


class Epoch(OfTrial):
    """An epoch has ended."""

    entry: Literal["epoch"] = "epoch"
    row: EpochRow


class Ended(OfTrial):
    """The trial has its result."""

    entry: Literal["ended"] = "ended"
    result: Result


class Compared(OfTrial):
    """The trial was compared with others."""

    entry: Literal["compared"] = "compared"
    panel: Panel


class Released(OfTrial):
    """All that is shown of a trial from a vault."""

    entry: Literal["released"] = "released"
    epochs: list[EpochRow]
    result: Result


OfSweep = Made | Noted | Planned | Chosen
SweepEntry = OfSweep | Turn | Epoch | Ended | Compared | Released
SWEEP_ENTRY: TypeAdapter[SweepEntry] = TypeAdapter(
    Annotated[SweepEntry, Field(discriminator="entry")]
)

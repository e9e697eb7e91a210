"""The entries of a sweep's log, oldest first: how it was made, its plan, what became of its trials.

Fields that are not named here are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from trainables.cards.card import PrivacyCard
from trainables.frozen import MAX_EPOCHS

# Stages of generation add up their epochs.
Epochs = Annotated[int, Field(ge=0, le=10 * MAX_EPOCHS, strict=True)]
Figure = float | None  # an infinity is text on the disk
_OPEN = ConfigDict(extra="allow")


class About(TypedDict):
    """Of a sweep: its id, when it was created, by which command, with which versions."""

    __pydantic_config__ = _OPEN  # type: ignore[misc]
    id: str
    created: Annotated[float, Field(strict=True)]


class CommandFacts(About):
    """Of a sweep that a command has made, as exports and reports use them."""

    command: list[str]
    git_commit: str | None
    versions: dict[str, str]


class TrialRow(TypedDict):
    """A planned trial (`PlannedTrial.to_dict`); it runs where there is no reason against it."""

    __pydantic_config__ = _OPEN  # type: ignore[misc]
    id: str
    reason: str | None


class PlanRow(TypedDict):
    """A plan (`Plan.to_dict`)."""

    __pydantic_config__ = _OPEN  # type: ignore[misc]
    trials: list[TrialRow]


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


class OfTrial(_Entry):
    """An entry about one trial."""

    trial: str


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
    plan: PlanRow
    space: dict[str, Any]


class Chosen(_Entry):
    """The trials of one choice of a search."""

    entry: Literal["chosen"] = "chosen"
    trials: list[TrialRow]


class SearchDenied(_Entry):
    """Why the search may choose no further trial; no reason: it may."""

    entry: Literal["search_denied"] = "search_denied"
    reason: str | None


class Earlier(_Entry):
    """The records of other sweeps' trials, which a search starts from."""

    entry: Literal["earlier"] = "earlier"
    records: list[Mapping[str, Any]]


class Ran(_Entry):
    """Wall-clock seconds of the sweep so far, over all its resumes."""

    entry: Literal["ran"] = "ran"
    seconds: float


class Turn(OfTrial):
    """The trial is about to be charged for its next epoch (begun), may not spend it (denied), has
    failed, or is continued by the user after it was stopped (reopened).
    """

    entry: Literal["begun", "denied", "failed", "reopened"]
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


OfSweep = Made | Noted | Planned | Chosen | SearchDenied | Earlier | Ran
SweepEntry = OfSweep | Turn | Epoch | Ended | Compared | Released
SWEEP_ENTRY: TypeAdapter[SweepEntry] = TypeAdapter(
    Annotated[SweepEntry, Field(discriminator="entry")]
)

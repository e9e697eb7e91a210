"""The fields of a sweep's files by kind. A reader names the kind of a file, and any damage is one
error. Fields that are not named here are kept unchanged.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from trainables.frozen import MAX_EPOCHS

# Stages of generation add up their epochs.
Epochs = Annotated[int, Field(ge=0, le=10 * MAX_EPOCHS, strict=True)]
Figure = float | None  # an infinity is text on the disk


class About(TypedDict):
    """`sweep.json`: the creation time of a sweep; that of a vault has no other field."""

    id: str
    created: NotRequired[Annotated[float, Field(strict=True)]]


class Made(About):
    """`sweep.json` of a sweep that a command has made, as exports and reports use it."""

    created: Annotated[float, Field(strict=True)]  # type: ignore[misc]  # is there
    command: list[str]
    git_commit: str | None
    versions: dict[str, str]


class EpochRow(TypedDict):
    """A line of `epochs.jsonl`."""

    epochs_done: Epochs
    seconds: float
    metrics: dict[str, Figure]


class Card(TypedDict, total=False):
    """The figures of a trial's `privacy` that tables read."""

    epsilon: Figure
    epsilon_paper: Figure


class Result(TypedDict):
    """`result.json` of a trial."""

    epochs_done: Epochs
    metrics: dict[str, Figure]
    notes: list[str]
    privacy: Card | None
    reason: str | None
    seconds: dict[str, Figure]
    stopped_early: bool
    time: NotRequired[Figure]


class Reason(TypedDict):
    """`failed.json`, `denied.json`, `search_denied.json`."""

    reason: str


class Seconds(TypedDict):
    """`clock.json`."""

    seconds: float


class Panel(TypedDict, total=False):
    """`panel.json`: the comparison of a trial with others."""

    metrics: dict[str, Figure]
    notes: list[str]
    violation: dict[str, Figure] | None
    time: float


class Selected(TypedDict):
    """`selected.json` of a private selection."""

    trial: str | None
    draw: str | None


Kind = TypeAdapter[Any]


ABOUT: Kind = TypeAdapter(About)
MADE: Kind = TypeAdapter(Made)
EPOCH: Kind = TypeAdapter(EpochRow)
RESULT: Kind = TypeAdapter(Result)
REASON: Kind = TypeAdapter(Reason)
SECONDS: Kind = TypeAdapter(Seconds)
PANEL: Kind = TypeAdapter(Panel)
SELECTED: Kind = TypeAdapter(Selected)
OBJECT: Kind = TypeAdapter(dict[str, Any])

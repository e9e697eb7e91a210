"""What a reproduction runs: frozen data, read from a file of `search_spaces/reproduction`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from search_spaces.files import mapping_in
from search_spaces.parts import Part
from trainables.errors import InvalidInput
from trainables.frozen import validated


class Point(Part):
    """One point of the paper's grid: clip norm C, noise multiplier z0, decay rate tau."""

    c: float = Field(gt=0)
    z0: float = Field(ge=0)
    tau: float = Field(default=0.0, ge=0)

    @property
    def name(self) -> str:
        """The point in the paper's letters; tau where it decays.

        >>> Point(c=1, z0=0.01, tau=0.1).name
        'C=1 z0=0.01 tau=0.1'
        """
        return f"C={self.c:g} z0={self.z0:g}" + (f" tau={self.tau:g}" if self.tau else "")


class Length(Part):
    """A coarse pass of its own: longer where a model has not begun to learn after the table's."""

    epochs: int = Field(ge=1)
    search: dict[str, Any] = Field(default_factory=dict)


class Corpus(Part):
    """One corpus of the table. `points_of`: the corpus whose best points are taken, not searched.
    `models` and `methods` empty: all; `epochs` and `seeds` None: the table's; `coarse` by model.
    """

    data: dict[str, Any]
    coarse: dict[str, Length] = Field(default_factory=dict)
    points: int | None = Field(default=None, ge=1)
    points_of: str | None = None
    by_default: bool = True
    models: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    epochs: int | None = Field(default=None, ge=1)
    seeds: int | None = Field(default=None, ge=1)


class Model(Part):
    """One model of the table: its config, and the training that suits it."""

    model: dict[str, Any]
    training: dict[str, Any] = Field(default_factory=dict)


class Method(Part):
    """One row of each pair. `decay`: eDP-SGD at the best point of that decay; `space` and
    `variant`: the trial of a shipped space instead of the table's base.
    """

    label: str
    baseline: bool = False
    decay: str | None = None
    fixed: dict[str, Any] = Field(default_factory=dict, alias="set")
    space: str | None = None
    variant: str | None = None


class Coarse(Length):
    """The pass that chooses points: its epochs, its search, and what else differs."""

    fixed: dict[str, Any] = Field(default_factory=dict, alias="set")


class Leakage(Part):
    """The pass whose trials are each other's shadow models."""

    seeds: int = Field(ge=2)
    fixed: dict[str, Any] = Field(default_factory=dict, alias="set")


class Smoke(Part):
    """What the short version changes."""

    corpora: tuple[str, ...]
    models: tuple[str, ...]
    methods: tuple[str, ...]
    points: int = Field(ge=1)
    seeds: int = Field(ge=1)
    coarse_epochs: int = Field(ge=1)
    leakage_seeds: int = Field(ge=2)
    fixed: dict[str, Any] = Field(default_factory=dict, alias="set")
    resources: dict[str, Any] = Field(default_factory=dict)
    search: dict[str, Any] = Field(default_factory=dict)


class Table(Part):
    """The description of a table; `paper` has the paper's figures by corpus and model. `privacy`:
    paths of a config that a command line sets and that no method's own value replaces. `chosen`: by
    the name of a pair and by decay, the points that an earlier run has chosen.
    """

    base: dict[str, Any]
    seeds: int = Field(ge=1)
    models: dict[str, Model]
    corpora: dict[str, Corpus]
    coarse: Coarse
    decays: dict[str, tuple[Point, ...]]
    methods: dict[str, Method]
    leakage: Leakage
    resources: dict[str, Any]
    smoke: Smoke
    privacy: dict[str, Any] = Field(default_factory=dict)
    paper: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    paper_notes: tuple[str, ...] = ()
    chosen: dict[str, dict[str, Point]] = Field(default_factory=dict)

    def coarse_of(self, pair: Pair) -> Coarse:
        """The coarse pass of a pair: the table's, with the pair's own epochs and search."""
        own = self.corpora[pair.corpus].coarse.get(pair.model)
        if own is None:
            return self.coarse
        search = {**self.coarse.search, **own.search}
        return self.coarse.model_copy(update={"epochs": own.epochs, "search": search})

    @field_validator("decays", mode="before")
    @classmethod
    def _rows_are_points(cls, decays: Any) -> Any:
        if not isinstance(decays, dict):
            return decays
        names = ("c", "z0", "tau")
        return {
            decay: [
                dict(zip(names, row, strict=False)) if isinstance(row, list) else row
                for row in rows
            ]
            for decay, rows in decays.items()
        }


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One corpus and one model of the table."""

    corpus: str
    model: str

    @property
    def name(self) -> str:
        """For the names of sweeps."""
        return f"{self.corpus.replace('_', '-')}-{self.model}"


def read(name: str) -> Table:
    """The shipped description of that table.

    Raises: InvalidInput for its first problem.
    """
    return parse(document_of(name))


def document_of(name: str) -> dict[str, Any]:
    """The shipped description as plain data."""
    folder = resources.files("search_spaces").joinpath("reproduction")
    return mapping_in(Path(str(folder.joinpath(f"{name}.yaml"))))


def parse(document: dict[str, Any]) -> Table:
    """A description from plain data.

    Raises: InvalidInput for its first problem.
    """
    return validated(Table, document)


def pairs(
    table: Table, *, corpora: Sequence[str] = (), models: Sequence[str] = (), smoke: bool = False
) -> list[Pair]:
    """The pairs of corpora and models, those of a corpus together; empty: the default ones.

    Raises: InvalidInput for a name that the table has not.
    """
    require_known("data", corpora, table.corpora)
    require_known("model", models, table.models)
    if smoke:
        corpora, models = corpora or table.smoke.corpora, models or table.smoke.models
    wanted = corpora or [name for name, each in table.corpora.items() if each.by_default]
    found = [
        Pair(corpus=corpus, model=model)
        for corpus in dict.fromkeys(wanted)
        for model in dict.fromkeys(models or table.models)
        if model in (table.corpora[corpus].models or table.models)
    ]
    if not found:
        raise InvalidInput(f"expected --data and --model to name a pair, got {', '.join(corpora)}")
    return found


def with_methods(table: Table, wanted: Sequence[Pair], methods: Sequence[str]) -> Table:
    """The table with these methods alone beside the first one, with which all are compared;
    empty: all.

    Raises: InvalidInput for a method that none of the `wanted` pairs has.
    """
    if not methods:
        return table
    own = {name: corpus.methods or tuple(table.methods) for name, corpus in table.corpora.items()}
    require_known(
        "method", methods, list(dict.fromkeys(each for p in wanted for each in own[p.corpus]))
    )
    kept = {next(iter(table.methods)), *methods}
    corpora = {
        name: corpus.model_copy(update={"methods": tuple(m for m in own[name] if m in kept)})
        for name, corpus in table.corpora.items()
    }
    return table.model_copy(update={"corpora": corpora})


def require_known(option: str, given: Sequence[str], known: Iterable[str]) -> None:
    """Raises: InvalidInput for a name that is not known."""
    for name in given:
        if name not in known:
            raise InvalidInput(f"expected --{option} to be one of {', '.join(known)}, got {name}")

"""The parts of a search space as frozen data: ranges, axes, variants, constraints, budgets."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from search_spaces import constraints
from trainables import catalogue, figures
from trainables.config import TrialConfig
from trainables.errors import InvalidInput

_PATH = re.compile(r"[a-z_]+(\.[a-z_]+)*")
CONFIG_FIELDS = frozenset(TrialConfig.model_fields)


class Part(BaseModel):
    """Immutable, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class Range(Part):
    """Numbers between `low` and `high`, both included; `num` of them where a grid is asked for."""

    low: float
    high: float
    log: bool = False
    integer: bool = False
    num: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not self.low < self.high:
            raise ValueError(f"expected low < high, got low={self.low} high={self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"expected low > 0 with log, got low={self.low}")
        return self

    def at(self, share: float) -> float | int:
        """The value at `share` in [0, 1] of the way, on the logarithm where `log`.

        >>> Range(low=1, high=100, log=True).at(0.5)
        10.0
        """
        if self.log:
            value = math.exp(
                math.log(self.low) + share * (math.log(self.high) - math.log(self.low))
            )
        else:
            value = self.low + share * (self.high - self.low)
        if self.integer:
            return round(min(max(value, self.low), self.high))
        # 12 digits: a rounding error in the last ones must not make a second, equal point.
        return float(f"{min(max(value, self.low), self.high):.12g}")


class Axis(Part):
    """What one field runs over: exactly one of the three.

    `grid`: every value, in each search. `choice` and `range`: every value in a grid search, drawn
    in a random one.
    """

    grid: tuple[Any, ...] | None = Field(default=None, min_length=1)
    choice: tuple[Any, ...] | None = Field(default=None, min_length=1)
    range: Range | None = None

    @model_validator(mode="after")
    def _one(self) -> Axis:
        given = [name for name in ("grid", "choice", "range") if getattr(self, name) is not None]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            raise ValueError(f"expected one of grid, choice and range, got {found}")
        return self

    @property
    def values(self) -> tuple[Any, ...] | None:
        """The listed values; None for a range without `num`."""
        if self.range is None:
            return self.grid if self.grid is not None else self.choice
        if self.range.num is None:
            return None
        last = self.range.num - 1
        return tuple(dict.fromkeys(self.range.at(i / last) for i in range(last + 1)))


def as_axes(axes: Any) -> Any:
    """Axes as they are typed: a list stands for a grid."""
    if not isinstance(axes, dict):
        return axes
    return {path: _axis(axis) for path, axis in axes.items()}


def _axis(value: Any) -> Any:
    return {"grid": value} if isinstance(value, list | tuple) else value


def check_paths(fields: dict[str, Any]) -> None:
    """Raises: ValueError for a key that is no dotted path of a config."""
    for path in fields:
        if not _PATH.fullmatch(path) or path.split(".")[0] not in CONFIG_FIELDS:
            allowed = ", ".join(sorted(CONFIG_FIELDS))
            raise ValueError(
                f"expected a dotted path that starts with one of {allowed}, got {path}"
            )


class Variant(Part):
    """One kind of trial, with values of its own. `baseline` exempts it from the epsilon budget."""

    name: str = Field(min_length=1, max_length=80)
    fixed: dict[str, Any] = Field(default_factory=dict, alias="set")
    axes: dict[str, Axis] = Field(default_factory=dict)
    drop_axes: tuple[str, ...] | Literal["all"] = ()
    baseline: bool = False

    @field_validator("axes", mode="before")
    @classmethod
    def _lists_are_grids(cls, axes: Any) -> Any:
        return as_axes(axes)

    @field_validator("fixed", "axes")
    @classmethod
    def _paths(cls, fields: dict[str, Any]) -> dict[str, Any]:
        check_paths(fields)
        return fields


class Constraint(Part):
    """A point is refused, with `reason`, unless `require` is true of it."""

    require: str
    reason: str = ""

    @field_validator("require")
    @classmethod
    def _parses(cls, text: str) -> str:
        try:
            constraints.parse(text)
        except InvalidInput as problem:
            raise ValueError(f"expected an expression: {problem}") from None
        return text

    @property
    def why(self) -> str:
        """What a refused point is told: `reason`, else the expression."""
        return self.reason or f"constraint {self.require}"


def _registered(name: str) -> str:
    if name not in figures.objectives():
        raise ValueError(f"expected one of {', '.join(figures.objectives())}, got {name!r}")
    return name


Objective = Annotated[str, AfterValidator(_registered)]


_RESULTS = "its theorem needs trials that are drawn without regard to results"
_NOT_INDEPENDENT = {  # fields of a search, and why a private selection has none of them
    "num_samples": "the number of trials is drawn from the law in num_trials",
    "seed": "number and points are drawn by a secret key of the operating system",
    "objectives": "the score is the task's validation metric",
    "num_startup": _RESULTS,
    "warm_start": _RESULTS,
    "scheduler": "a trial that is stopped by its results is no independent draw",
}


class NumTrials(Part):
    """The law of the number of trials of a private selection, and its mean.

    Geometric and logarithmic numbers are at least 1; a Poisson number may be 0.
    """

    law: Literal["geometric", "logarithmic", "poisson"] = "geometric"
    mean: float = Field(gt=1, le=10_000)


class Search(Part):
    """How points are chosen: all beforehand (grid, random, quasi_random), one after the other in
    the light of what is known (tpe, gp, nsga2), or a random number of independent draws of which
    the best alone is released (private_selection). `num_samples` counts draws for each variant, in
    an adaptive search configurations over all variants.
    """

    strategy: Literal[
        "grid", "random", "quasi_random", "tpe", "gp", "nsga2", "private_selection"
    ] = "grid"
    num_samples: int | None = Field(default=None, ge=1, le=100_000)
    num_trials: NumTrials | None = Field(
        default=None, description="private_selection: the law of the number of trials"
    )
    target_epsilon: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="private_selection: of the best trial; one noise multiplier for all trials is"
        " found for it",
    )
    score_noise: float | None = Field(
        default=None, description="private_selection: refused, the line says why"
    )
    seed: int = Field(default=0, ge=0)
    objectives: tuple[Objective, ...] = Field(
        default=("validation_ser",),
        min_length=1,
        description="what an adaptive search improves; several: their Pareto front; default with"
        " task=synthesis: mauve",
    )
    num_startup: int | None = Field(
        default=None,
        ge=1,
        description="adaptive: configurations spread over the space before any model",
    )
    warm_start: tuple[str, ...] = Field(
        default=(), description="adaptive: names of earlier sweeps whose trials are known"
    )
    scheduler: Literal["none", "asha", "median"] = Field(
        default="none",
        description="stops trials early, by validation SER or, with task=synthesis, loss",
    )
    grace_epochs: int = Field(default=1, ge=1, description="no trial is stopped before")

    @property
    def is_adaptive(self) -> bool:
        """Whether points are chosen in the light of earlier results."""
        return self.strategy in ("tpe", "gp", "nsga2")

    @property
    def is_private_selection(self) -> bool:
        """Whether the best of a secret number of independent draws is all that is released."""
        return self.strategy == "private_selection"

    @field_validator("objectives", "warm_start", mode="before")
    @classmethod
    def _one_or_more(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names

    @model_validator(mode="after")
    def _for_private_selection(self) -> Search:
        if not self.is_private_selection:
            for name in ("num_trials", "target_epsilon", "score_noise"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"expected {name} with strategy private_selection, got {self.strategy}"
                    )
            return self
        if self.num_trials is None:
            raise ValueError("expected num_trials (law and mean) with strategy private_selection")
        if self.score_noise is not None:
            raise ValueError(
                "expected no score_noise: the semantic error rate is a ratio over all validation"
                " records, so one record's part in it is not bounded and no noise covers it"
            )
        for name, why in _NOT_INDEPENDENT.items():
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"expected no {name} with strategy private_selection: {why}")
        return self

    @model_validator(mode="after")
    def _for_adaptive(self) -> Search:
        if len(set(self.objectives)) < len(self.objectives):
            raise ValueError(f"expected different objectives, got {', '.join(self.objectives)}")
        for name in ("objectives", "num_startup", "warm_start"):
            if name in self.model_fields_set and not self.is_adaptive and getattr(self, name):
                raise ValueError(
                    f"expected {name} with strategy tpe, gp or nsga2, got {self.strategy}"
                )
        return self

    @model_validator(mode="after")
    def _samples(self) -> Search:
        without = self.strategy == "grid" or self.is_private_selection
        if without != (self.num_samples is None):
            word = "no num_samples" if without else "num_samples"
            raise ValueError(f"expected {word} with strategy {self.strategy}")
        return self


class Budget(Part):
    """What may be spent. `epsilon` is a trial's, `total` the whole sweep's; None: no bound."""

    epsilon: Annotated[float, Field(gt=0)] | None = None
    accountant: str = Field(default="sound", description="sound | paper | an entry of accountants")
    total: Annotated[float, Field(gt=0)] | None = None
    trials: int | None = Field(default=None, ge=1)
    seconds: Annotated[float, Field(gt=0)] | None = None
    accelerator_hours: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="hours of one GPU, over all trials; a share counts as a share"
    )

    @field_validator("accountant")
    @classmethod
    def _known(cls, name: str) -> str:
        allowed = ("sound", "paper", *catalogue.names("accountants"))
        if name not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {name!r}")
        return name


class Resources(Part):
    """What a trial runs on. No part of a trial's identity: none of it changes a result."""

    executor: Literal["gang", "per_trial", "local"] = "gang"
    workers: int | Literal["auto"] | None = Field(
        default=None,
        description="processes a trial; default: training.num_workers; auto: one where there are"
        " trials enough to fill the machine, more where there are few",
    )
    slots: int | Literal["auto"] = Field(default="auto", description="trials at a time")
    cpus_per_worker: int = Field(default=1, ge=1)
    gpus_per_worker: float = Field(
        default=0.0, ge=0, description="a share below 1: several trials on one GPU (Ray's shares)"
    )

    @field_validator("slots", "workers")
    @classmethod
    def _positive(cls, count: int | str | None) -> int | str | None:
        if isinstance(count, int) and count < 1:
            raise ValueError(f"expected auto or at least 1, got {count}")
        return count

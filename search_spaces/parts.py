"""The parts of a search space as frozen data: ranges, axes, variants, constraints,
budgets.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from search_spaces import constraints
from trainables import catalogue
from trainables.config.trial import TrialConfig
from trainables.errors import InvalidInput, did_you_mean, quote
from trainables.fields import MAX_NUMBER, MAX_ROWS, Frozen, Listed

MAX_LISTED = 100_000  # values of one axis
_PATH = re.compile(r"[a-z_]+(\.[a-z_]+)*")
CONFIG_FIELDS = frozenset(TrialConfig.model_fields)
Few = Annotated[int, Field(ge=1, le=10_000)]
Positive = Annotated[float, Field(gt=0)]
_End = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]


class Part(Frozen):
    """A part of a space, which Python may also give by the names of its attributes."""

    model_config = ConfigDict(populate_by_name=True)


class Range(Part):
    """Numbers between `low` and `high`, both included; a grid takes `num` of them."""

    low: _End
    high: _End
    log: bool = False
    integer: bool = False
    num: Annotated[int, Field(ge=2, le=MAX_LISTED)] | None = None

    @model_validator(mode="after")
    def _require_order(self) -> Range:
        if not self.low < self.high:
            raise ValueError(
                f"expected low < high, got low={self.low} high={self.high}"
            )
        if self.log and self.low <= 0:
            raise ValueError(f"expected low > 0 with log, got low={self.low}")
        if self.ends[0] > self.ends[1]:
            raise ValueError(
                f"expected an integer between low and high, got low={self.low}"
                f" high={self.high}"
            )
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value, integers where the values are."""
        return (
            (math.ceil(self.low), math.floor(self.high))
            if self.integer
            else (self.low, self.high)
        )

    def at(self, share: float) -> float | int:
        """The value at `share` in [0, 1] of the way, on the logarithm where `log`.

        >>> Range(low=1, high=100, log=True).at(0.5)
        10.0
        """
        low, high = self.ends
        if self.log:
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        if self.integer:
            return round(min(max(value, low), high))
        # 12 digits: a rounding error in the last ones must not make a second, equal
        # point.
        return float(f"{min(max(value, low), high):.12g}")


class Axis(Part):
    """The values of one field: exactly one of the three kinds. A list alone is a grid.

    `grid`: every value, in each search. `choice` and `range`: every value in a grid
    search, drawn in a random one.
    """

    grid: Annotated[Listed[Any], Field(min_length=1)] | None = None
    choice: Annotated[Listed[Any], Field(min_length=1)] | None = None
    range: Range | None = None

    @model_validator(mode="before")
    @classmethod
    def _a_list(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return {"grid": value}
        if not isinstance(value, dict | Axis):
            raise ValueError(f"expected a list or a range, got {quote(value)}")
        return value

    @model_validator(mode="after")
    def _one(self) -> Axis:
        given = [
            name
            for name in ("grid", "choice", "range")
            if getattr(self, name) is not None
        ]
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

    def at(self, share: float) -> Any:
        """The value at `share` in [0, 1] of the way."""
        if self.range is not None:
            return self.range.at(share)
        values = self.values or ()
        return values[min(int(share * len(values)), len(values) - 1)]


def _check_paths(fields: dict[str, Any]) -> dict[str, Any]:
    """Raises: ValueError for a key that is not a dotted path of a config."""
    for path in fields:
        if not _PATH.fullmatch(path) or path.split(".")[0] not in CONFIG_FIELDS:
            allowed = ", ".join(sorted(CONFIG_FIELDS))
            meant = did_you_mean(path.split(".")[0], CONFIG_FIELDS)
            raise ValueError(
                f"expected a dotted path that starts with one of {allowed}, got"
                f" {path}{meant}"
            )
    return fields


Fields = Annotated[
    dict[str, Any], AfterValidator(_check_paths)
]  # by their dotted paths
Axes = Annotated[dict[str, Axis], AfterValidator(_check_paths)]


class Variant(Part):
    """One kind of trial, with fixed values. `baseline` exempts it from the epsilon
    budget.
    """

    name: str = Field(min_length=1, max_length=80)
    fixed: Fields = Field(default_factory=dict, alias="set")
    axes: Axes = Field(default_factory=dict)
    drop_axes: Literal["all"] | None = None
    baseline: bool = False

    @field_validator("name")
    @classmethod
    def _prints(cls, name: str) -> str:
        """Terminals would act on control characters."""
        if not name.isprintable():
            raise ValueError(f"expected printable characters, got {quote(name)}")
        return name


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
        """The reason of a refused point: `reason`, else the expression."""
        return self.reason or f"constraint {self.require}"


class Budget(Part):
    """The budgets. `epsilon` is that of a trial, `total` of the whole sweep; None: no
    bound.
    """

    epsilon: Positive | None = None
    """largest epsilon of a trial; others are refused"""
    accountant: str = "sound"
    """sound | paper | an entry of accountants"""
    total: Positive | None = None
    """largest epsilon of all trials of the sweep together"""
    trials: Annotated[int, Field(ge=1, le=MAX_ROWS)] | None = None
    """largest number of trials"""

    @field_validator("accountant")
    @classmethod
    def _require_accountant(cls, name: str) -> str:
        allowed = ("sound", "paper", *catalogue.names("accountants"))
        if name not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {name!r}")
        return name


class Resources(Part):
    """The resources of trials. They change neither results nor ids."""

    executor: Literal["gang", "local"] = "gang"
    """gang: Ray workers that take one trial after another; local: one trial at a time,
    without Ray
    """
    workers: Few | None = None
    """most worker processes per trial, which has the largest divisor of its
    training.num_workers up to it; default: the largest that fits on the machine
    """
    slots: Few | None = None
    """number of concurrent trials; default: as many as the CPUs, the GPUs and the
    memory permit
    """
    cpus_per_worker: Few = 1
    """CPUs per worker"""
    gpus_per_worker: Annotated[float, Field(ge=0, le=10_000)] | None = None
    """GPUs per worker, which computes on a CPU without any; default: 1 where the
    machine or cluster has GPUs, otherwise 0; below 1 several trials share a GPU (Ray's
    fractional GPUs); executor local: 0 or 1
    """

    @model_validator(mode="after")
    def _local_has_one_gpu(self) -> Resources:
        if self.executor == "local" and self.gpus_per_worker not in (None, 0, 1):
            raise ValueError(
                "expected resources.gpus_per_worker 0 or 1 with executor local, which"
                " runs one"
                f" trial at a time in one process, got {self.gpus_per_worker:g}"
            )
        return self

"""The result of a benchmark as frozen data."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainables import catalogue


@dataclass(frozen=True, kw_only=True)
class Times:
    """Processor and wall-clock seconds of each measured step, the slowest worker's of each."""

    cpu: tuple[float, ...]
    wall: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of the rounds: times by engine, and the reasons of skipped ones."""

    times: dict[str, Times]
    skipped: dict[str, str]
    num_records: int
    steps_per_epoch: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """One engine. Milliseconds of processor a step (median and quartiles), seconds an epoch.

    `x_sgd` and `x_stock` are medians of the ratio to that baseline's step in the same round, with
    quartiles; None where the baseline was not measured. `skipped` is the reason of an empty row.
    """

    engine: str
    steps: int = 0
    step_ms: float | None = None
    step_ms_quartiles: tuple[float, float] | None = None
    wall_ms: float | None = None
    epoch_seconds: float | None = None
    x_sgd: float | None = None
    x_sgd_quartiles: tuple[float, float] | None = None
    x_stock: float | None = None
    peak_mib: float | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The rows and the settings. `idle_mib`: the peak of a process that only opened the data."""

    data: str
    model: str
    batch_size: int
    workers: int
    num_records: int
    steps_per_epoch: int
    idle_mib: float | None
    rows: tuple[Row, ...]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def row(
    engine: str,
    measured: Mapping[str, Times],
    *,
    steps_per_epoch: int,
    peak_mib: float | None,
) -> Row:
    """The row of an engine that was measured."""
    times = measured[engine]
    low, middle, high = _quartiles(times.cpu)
    sgd, stock = measured.get(catalogue.marked_entry("engines", "BASELINE")), measured.get("stock")
    x_sgd = None if sgd is None else ratios(times.cpu, sgd.cpu)
    x_stock = None if stock is None else ratios(times.cpu, stock.cpu)
    return Row(
        engine=engine,
        steps=len(times.cpu),
        step_ms=1e3 * middle,
        step_ms_quartiles=(1e3 * low, 1e3 * high),
        wall_ms=1e3 * statistics.median(times.wall),
        epoch_seconds=middle * steps_per_epoch,
        x_sgd=None if x_sgd is None else x_sgd[1],
        x_sgd_quartiles=None if x_sgd is None else (x_sgd[0], x_sgd[2]),
        x_stock=None if x_stock is None else x_stock[1],
        peak_mib=peak_mib,
    )


def ratios(cpu: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Quartiles of the ratios within a round, where a slow machine affects both alike."""
    # An engine that was stopped early has fewer rounds.
    return _quartiles([mine / its for mine, its in zip(cpu, base, strict=False)])


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """(lower quartile, median, upper quartile).

    >>> _quartiles([2.0])
    (2.0, 2.0, 2.0)
    """
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high

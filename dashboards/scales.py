"""Axes: where a value goes, and where round ticks are. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["linear", "log"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps `low`..`high` of the data to `start`..`end` of the picture.

    >>> Scale(kind="log", low=1, high=100, start=0, end=10).place(10)
    5.0
    """

    kind: Kind
    low: float
    high: float
    start: float
    end: float
    whole: bool = False  # only whole numbers have ticks

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"expected low < high, got {self.low} and {self.high}")
        if self.kind == "log" and self.low <= 0:
            raise ValueError(f"expected low > 0 on a log axis, got {self.low}")

    def place(self, value: float) -> float:
        """Where a value goes; what lies outside goes to the edge."""
        low, high = self.low, self.high
        bounded = min(max(value, low), high)
        if self.kind == "log":
            bounded, low, high = math.log(bounded), math.log(low), math.log(high)
        return self.start + (bounded - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 6) -> list[float]:
        """About `count` round values inside, rising."""
        if self.kind == "log":
            return _log_ticks(self.low, self.high, count)
        steps = (1.0, 2.0, 5.0, 10.0) if self.whole else (1.0, 2.0, 2.5, 5.0, 10.0)
        ticks = _linear_ticks(self.low, self.high, count, steps)
        return [tick for tick in ticks if tick == int(tick)] if self.whole else ticks


def linear(
    values: Sequence[float], *, start: float, end: float, floor: float | None = None
) -> Scale:
    """A linear axis that holds the values with some air; `floor` is the lowest it begins at.

    >>> scale = linear([0.1, 0.5], start=0, end=1, floor=0)
    >>> scale.low, scale.high > 0.5
    (0, True)
    """
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    air = 0.06 * (high - low) or 0.1 * abs(high) or 0.5
    low, high = low - air, high + air
    if floor is not None:
        low = floor if floor < high else low
    return Scale(kind="linear", low=low, high=high, start=start, end=end)


def log(values: Sequence[float], *, start: float, end: float) -> Scale:
    """A log axis that holds the positive finite values with some air.

    >>> log([8, 50], start=0, end=1).low < 8
    True
    """
    known = [value for value in values if value > 0 and math.isfinite(value)] or [1.0, 10.0]
    low, high = math.log10(min(known)), math.log10(max(known))
    air = max(0.06 * (high - low), 0.15)
    return Scale(kind="log", low=10 ** (low - air), high=10 ** (high + air), start=start, end=end)


def tick_label(value: float, *, kind: Kind) -> str:
    """A tick as text; powers of ten on a log axis from 10,000 on and below 0.001.

    >>> tick_label(1e6, kind="log"), tick_label(50, kind="log"), tick_label(0.25, kind="linear")
    ('10⁶', '50', '0.25')
    """
    if kind == "log" and (value >= 1e4 or value < 1e-3):
        power = round(math.log10(value))
        return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:.10g}".replace("-", "−")


def _linear_ticks(low: float, high: float, count: int, steps: Sequence[float]) -> list[float]:
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in steps if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    powers = list(range(first, last + 1))
    if len(powers) < 2:  # less than two decades: round values between
        between = [m * 10.0**p for p in range(first - 2, last + 2) for m in (1, 2, 5)]
        return [value for value in between if low <= value <= high]
    stride = max(1, math.ceil(len(powers) / count))
    return [10.0**power for power in powers if (power - powers[0]) % stride == 0]

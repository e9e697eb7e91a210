"""Means over seeds and relative changes with 95 % intervals. Pure.

Two things vary: the seed, and which records are tested. The first gives an interval by Student's t
(Welch 1947 for a change), the second one by the bootstrap or DeLong, which a trial has of its own.
Their half-widths are added in quadrature, because the two are independent. One seed has the second
part alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sweep.results.student import half_width


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure and the bounds of its 95 % interval, in the figure's own unit."""

    value: float
    low: float
    high: float

    @property
    def is_noise(self) -> bool:
        """Of a change: whether the interval contains 0."""
        return self.low <= 0 <= self.high


def mean(estimates: Sequence[Estimate]) -> Estimate | None:
    """The mean over seeds of one figure, each with the interval of its records; None for none.

    >>> one = Estimate(value=0.5, low=0.4, high=0.6)
    >>> mean([one]) == one, mean([]) is None
    (True, True)
    """
    if not estimates:
        return None
    values = [each.value for each in estimates]
    seeds = 0.0
    if len(values) > 1:
        seeds = half_width([(statistics.variance(values) / len(values), len(values) - 1)])
    return _widen(statistics.fmean(values), estimates, seeds)


def relative_change(
    mine: Sequence[float], theirs: Sequence[float], *, paired: Sequence[Estimate]
) -> Estimate | None:
    """100 (mean(mine) - mean(theirs)) / mean(theirs) in percent; None without a value on one side,
    over 0, or without `paired`: the change of each seed's trial, paired over the same records.

    >>> paired = [Estimate(value=-10.0, low=-14.0, high=-6.0)]
    >>> round(relative_change([0.09], [0.1], paired=paired).low, 6)
    -14.0
    """
    if not mine or not theirs or not paired or statistics.fmean(theirs) == 0:
        return None
    ratio = statistics.fmean(mine) / statistics.fmean(theirs)
    return _widen(100 * (ratio - 1), paired, 100 * _half_width_of_ratio(mine, theirs))


def _half_width_of_ratio(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """Of the 95 % interval of a ratio of means over seeds (delta method); 0 for single values."""
    ratio = statistics.fmean(mine) / statistics.fmean(theirs)
    parts = [
        (factor**2 * statistics.variance(values) / len(values), len(values) - 1)
        for factor, values in (
            (1 / statistics.fmean(theirs), mine),
            (ratio / statistics.fmean(theirs), theirs),
        )
        if len(values) > 1
    ]
    return half_width(parts)


def _widen(value: float, of_records: Sequence[Estimate], seeds: float) -> Estimate:
    """`value` with the mean half-widths of `of_records` and `seeds` in quadrature.

    The mean, not a smaller one: every seed is tested on the same records.
    """
    below = statistics.fmean(each.value - each.low for each in of_records)
    above = statistics.fmean(each.high - each.value for each in of_records)
    return Estimate(
        value=value, low=value - math.hypot(below, seeds), high=value + math.hypot(above, seeds)
    )

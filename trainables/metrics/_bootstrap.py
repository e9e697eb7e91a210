"""Bootstrap intervals over utterances (Efron 1979), from counts alone.

Metrics are functions of summed counts, so a resample only needs to know how often each *distinct*
row of counts was drawn: one multinomial draw over a few hundred rows in place of n indices, with
the same law.

A resample holds only errors that were seen: without any, every resample is perfect and the interval
is a point. Where few utterances are wrong, their number is binomial, whose interval is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidInput
from trainables.metrics._auc import TAIL
from trainables.metrics._counts import Counts, from_table
from trainables.metrics.membership import clopper_pearson

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
# Percentiles covered .63 to .93 in place of .95 where fewer of 100 to 1,000 utterances were wrong.
_ENOUGH = 10


def resampled_totals(rows: Integers, *, samples: int, rng: np.random.Generator) -> Integers:
    """Column sums of `samples` resamples of `rows`, drawn with replacement.

    `rows` is [n, k], one row an utterance; the result is [samples, k].
    """
    return totals_of_distinct(*distinct(rows), samples=samples, rng=rng)


def distinct(rows: Integers) -> tuple[Integers, Integers]:
    """The distinct rows [m, k] of `rows` [n, k], and how often each is there [m].

    Raises: InvalidInput without a row.
    """
    if rows.ndim != 2 or len(rows) == 0:
        raise InvalidInput(f"expected rows of shape [n, k] with n >= 1, got {rows.shape}")
    found, times = np.unique(rows, axis=0, return_counts=True)
    return found, times


def totals_of_distinct(
    rows: Integers, times: Integers, *, samples: int, rng: np.random.Generator
) -> Integers:
    """`resampled_totals` of rows whose `distinct` ones are known."""
    drawn = rng.multinomial(times.sum(), times / times.sum(), size=samples)
    return np.asarray(drawn @ rows, dtype=np.int64)


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % percentile interval of resampled values, some of which may be infinite."""
    # No point lies between a number and infinity.
    method: Literal["linear", "nearest"] = "linear" if np.isfinite(values).all() else "nearest"
    low, high = np.percentile(values, [TAIL, 100.0 - TAIL], method=method)
    return float(low), float(high)


def widen(
    percentiles: tuple[float, float],
    metric: Callable[[Counts], Floats],
    rows: Integers,
    times: Integers,
    *,
    perfect: float,
) -> tuple[float, float]:
    """`percentiles` of `metric`, and where fewer than ten utterances take it away from `perfect`,
    the Clopper-Pearson interval of their share too.

    `rows` [m, k] are the distinct counts of utterances, `times` [m] how often each is there. Each
    wrong utterance counts as the mean one; the first, where none is wrong, as a whole error.
    """
    total = times @ rows
    gap = abs(float(metric(from_table(total))) - perfect)
    with np.errstate(invalid="ignore", divide="ignore"):  # nothing is left of one utterance
        without = np.abs(metric(from_table(total - rows)) - perfect)
    wrong = int(times[without < gap].sum())
    if wrong >= _ENOUGH or (gap > 0 and not wrong):
        return percentiles
    of_one = metric(from_table(rows)) == perfect  # without slots no F1 is perfect
    num = int(times[without != gap].sum() if wrong else times[of_one].sum())
    each = gap * num / wrong if wrong else 1.0
    away = each * (1 - 2 * perfect)
    shares = clopper_pearson(wrong, num)
    low, high = sorted(perfect + away * share for share in shares)
    return min(percentiles[0], low), max(percentiles[1], high)


def paired_difference(
    first: Integers,
    second: Integers,
    *,
    statistic: Callable[[Integers, Integers], Floats],
    samples: int,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """(estimate, low, high) at 95 % of `statistic` of two systems on the *same* utterances.

    Both count tables are [n, k] in the same order of utterances; each resample draws an utterance
    for both systems at once, which cancels its difficulty. `statistic` maps two tables of totals
    [..., k] to values [...].

    Raises: InvalidInput where the tables differ in shape.
    """
    if first.shape != second.shape:
        raise InvalidInput(
            f"expected counts of the same utterances, got {first.shape} and {second.shape}"
        )
    width = first.shape[1]
    totals = resampled_totals(np.concatenate([first, second], axis=1), samples=samples, rng=rng)
    values = statistic(totals[:, :width], totals[:, width:])
    low, high = interval(values)
    estimate = statistic(first.sum(axis=0), second.sum(axis=0))
    return float(estimate), low, high

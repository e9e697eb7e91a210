"""Bootstrap intervals over utterances (Efron 1979), from counts alone.

Metrics are functions of summed counts, so a resample only needs to know how often each *distinct*
row of counts was drawn: one multinomial draw over a few hundred rows in place of n indices, with
the same law.

A resample holds only errors that were seen: without any, every resample is perfect and the interval
is a point, and so it is where nothing is right. Where few utterances are wrong, or few right, their
number is binomial, whose interval is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidInput
from trainables.metrics._auc import Floats
from trainables.metrics._auc import interval as interval
from trainables.metrics._counts import NAMES, Counts, from_table
from trainables.metrics.membership import clopper_pearson

Integers = NDArray[np.int64]
# Percentiles covered .63 to .93 in place of .95 where fewer of 100 to 1,000 utterances were wrong.
_ENOUGH = 10
_ERRORS = ("intent_errors", "frame_errors", "substituted", "deleted", "inserted")
_RIGHT = np.array([name not in _ERRORS for name in NAMES], dtype=np.int64)  # with one slot


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


def widen(
    percentiles: tuple[float, float],
    metric: Callable[[Counts], Floats],
    rows: Integers,
    times: Integers,
    *,
    perfect: float,
) -> tuple[float, float]:
    """`percentiles` of `metric`, and where fewer than ten utterances take it away from an end of
    its range, the Clopper-Pearson interval of their share too, cut off at the range. The ends are
    `perfect` and 0: an error rate has no largest value.

    `rows` [m, k] are the distinct counts of utterances, `times` [m] how often each is there. Each
    such utterance counts as the mean one; the first, where there is none, as a whole one.
    """
    found = [percentiles]
    for end in {perfect, 0.0}:
        few = _few(metric, rows, times, end=end, perfect=perfect)
        if few is not None:
            hits, num, each = few
            away = each * (1 - 2 * end)
            shares = clopper_pearson(hits, num)
            low, high = sorted(end + away * share for share in shares)
            found.append((low, high))
    lows, highs = zip(*found, strict=True)
    # The mean utterance may have more slots than others: so many of it would leave the range.
    return max(0.0, min(lows)), min(max(highs), perfect or math.inf)


def _few(
    metric: Callable[[Counts], Floats],
    rows: Integers,
    times: Integers,
    *,
    end: float,
    perfect: float,
) -> tuple[int, int, float] | None:
    """The utterances that take `metric` away from `end`, where they are few: their number, that of
    the utterances that could, and how far one alone would take it. Such an utterance is away from
    the end by itself: what its absence does to the whole would say little where all are wrong.
    """
    total = times @ rows
    gap = abs(float(metric(from_table(total))) - end)
    alone = metric(from_table(rows))
    with np.errstate(invalid="ignore", divide="ignore"):  # nothing is left of one utterance
        counts = np.abs(metric(from_table(total - rows)) - end) != gap
    hits = int(times[counts & (alone != end)].sum())
    if hits >= _ENOUGH or (gap > 0 and not hits):
        return None
    if hits:
        counted = counts
    elif end == perfect:
        counted = alone == perfect  # without slots no F1 is perfect
    else:
        counted = metric(from_table(rows + _RIGHT)) != perfect  # nor is it worse
    num = int(times[counted].sum())
    return (hits, num, gap * num / hits if hits else 1.0) if num else None


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

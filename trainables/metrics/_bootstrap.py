"""Bootstrap intervals over utterances (Efron 1979), from counts alone.

Metrics are functions of summed counts, so a resample only needs to know how often each *distinct*
row of counts was drawn: one multinomial draw over a few hundred rows in place of n indices, with
the same law.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidInput

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def resampled_totals(rows: Integers, *, samples: int, rng: np.random.Generator) -> Integers:
    """Column sums of `samples` resamples of `rows`, drawn with replacement.

    `rows` is [n, k], one row an utterance; the result is [samples, k].
    """
    if rows.ndim != 2 or len(rows) == 0:
        raise InvalidInput(f"expected rows of shape [n, k] with n >= 1, got {rows.shape}")
    distinct, times = np.unique(rows, axis=0, return_counts=True)
    drawn = rng.multinomial(len(rows), times / len(rows), size=samples)
    return np.asarray(drawn @ distinct, dtype=np.int64)


def interval(values: Floats, *, confidence: float = 0.95) -> tuple[float, float]:
    """Percentile interval of resampled values."""
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(values, [tail, 100.0 - tail])
    return float(low), float(high)


def paired_difference(
    first: Integers,
    second: Integers,
    *,
    statistic: Callable[[Integers, Integers], Floats],
    samples: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> tuple[float, float, float]:
    """(estimate, low, high) of `statistic` of two systems on the *same* utterances.

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
    low, high = interval(values, confidence=confidence)
    estimate = statistic(first.sum(axis=0), second.sum(axis=0))
    return float(estimate), low, high

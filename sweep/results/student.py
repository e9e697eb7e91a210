"""Intervals of means over seeds. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence


def half_width(parts: Sequence[tuple[float, int]]) -> float:
    """Half of the 95 % interval of a sum of independent means; each part is the variance of a mean
    and its degrees of freedom, n - 1. Student's t for one part, Welch's (1947) for several; 0 where
    nothing varies.

    >>> round(half_width([(1.0, 2)]), 3)
    4.303
    """
    # The quantile of `scipy.stats.t`, whose import and calls take most of the time of a table.
    from scipy.special import stdtrit

    total = sum(variance for variance, _ in parts)
    if not total:
        return 0.0
    freedom = 1 / sum((variance / total) ** 2 / each for variance, each in parts)
    return float(stdtrit(freedom, 0.975)) * math.sqrt(total)

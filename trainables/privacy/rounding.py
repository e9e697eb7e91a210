"""The printed form of an epsilon, rounded up because it is a guarantee."""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, Context, Decimal

DIGITS = 4  # significant digits of a printed epsilon


def format_epsilon(epsilon: float | None, *, digits: int = DIGITS) -> str:
    """An epsilon with `digits` significant digits, the smallest such number that is not below it.

    Infinity is "inf" and a missing value "-".

    Raises: ValueError for a negative number or not a number.

    >>> format_epsilon(3.0005), format_epsilon(3.0), format_epsilon(math.inf), format_epsilon(None)
    ('3.001', '3', 'inf', '-')
    """
    if epsilon is None:
        return "-"
    if not epsilon >= 0:
        raise ValueError(f"expected epsilon >= 0, got {epsilon}")
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    # Below the smallest normal number a float no longer holds `digits` digits.
    shortest = Decimal(repr(max(float(epsilon), sys.float_info.min)))  # 0.1 is read as 0.1
    up = Context(prec=digits, rounding=ROUND_CEILING).plus(shortest)
    return f"{float(up):.{digits}g}"

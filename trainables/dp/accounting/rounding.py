"""The printed form of a guarantee, which is rounded up, and of a certified bound,
rounded down.
"""

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

DIGITS = 4  # significant digits of a printed epsilon


def format_epsilon(epsilon: float | None, *, digits: int = DIGITS) -> str:
    """An epsilon with `digits` significant digits, the smallest such number that is not
    below it.

    Infinity is "inf" and a missing value "-".

    Raises: ValueError for a negative number or not a number.

    >>> format_epsilon(3.0005), format_epsilon(3.0), format_epsilon(math.inf), format_epsilon(None)
    ('3.001', '3', 'inf', '-')
    """
    return _rounded(epsilon, ROUND_CEILING, digits)


def format_delta(delta: float | None) -> str:
    """The delta of a guarantee as text, with 6 significant digits and rounded up, so
    that the printed figure is never stronger than the one that was certified; a missing
    value is "-". Used wherever a page, a card or a message names a delta.

    Raises: ValueError for a negative number or not a number.

    >>> format_delta(1e-5), format_delta(1 / 300_000), format_delta(None)
    ('1e-05', '3.33334e-06', '-')
    """
    return format_epsilon(delta, digits=6)


def percent(share: float | None) -> str:
    """A share in [0, 1] as text in percent, with 3 significant digits and rounded up
    because it bounds what a guarantee allows; above 1 it is 100 %, and a missing one is
    "-". Shares that are measured rather than bounded are formatted elsewhere.

    >>> percent(0.11649), percent(1.0), percent(None)
    ('11.7 %', '100 %', '-')
    """
    if share is None:
        return "-"
    return f"{format_epsilon(min(100.0, 100 * share), digits=3)} %"


def risk_sentences(max_tpr_1pct: float | None) -> list[str]:
    """What a largest true-positive rate at 1 % false positives (a share in [0, 1])
    means for the members of the data, in one sentence to stand after an epsilon; an
    empty list where the rate is not known, so that callers can join what there is.

    >>> risk_sentences(0.05)
    ['An attacker with 1 % false alarms finds at most 5 % of the members.']
    """
    if max_tpr_1pct is None:
        return []
    found = percent(max_tpr_1pct)
    return [f"An attacker with 1 % false alarms finds at most {found} of the members."]


def format_lower_bound(epsilon: float | None, *, digits: int = DIGITS) -> str:
    """A certified lower bound with `digits` significant digits, the largest such number
    that is not above it.

    Infinity is "inf" and a missing value "-".

    Raises: ValueError for a negative number or not a number.

    >>> format_lower_bound(2.9999), format_lower_bound(3.0), format_lower_bound(None)
    ('2.999', '3', '-')
    """
    return _rounded(epsilon, ROUND_FLOOR, digits)


def _rounded(epsilon: float | None, rounding: str, digits: int) -> str:
    if epsilon is None:
        return "-"
    if not epsilon >= 0:
        raise ValueError(f"expected epsilon >= 0, got {epsilon}")
    least = sys.float_info.min  # below, a float no longer holds `digits` digits
    if 0 < epsilon < least:
        epsilon = least if rounding == ROUND_CEILING else 0.0
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    shortest = Decimal(repr(float(epsilon)))  # 0.1 is read as 0.1
    return f"{float(Context(prec=digits, rounding=rounding).plus(shortest)):.{digits}g}"

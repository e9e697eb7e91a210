"""Figures as people read them."""

from __future__ import annotations

import math

from dashboards.results import Estimate


def number(value: float | None, digits: int = 4) -> str:
    """A figure to some significant digits; a dash for nothing.

    >>> number(None), number(0.15066667), number(float("inf")), number(60046719.5), number(48.0)
    ('–', '0.1507', '∞', '6.00e+07', '48')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1e4:
        return f"{value:.2e}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def share(value: float | None) -> str:
    """A rate as four decimals, so that a column of them lines up.

    >>> share(0.187), share(None), share(1.5)
    ('0.1870', '–', '1.5000')
    """
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"


def interval(estimate: Estimate | None) -> str:
    """The bounds of a rate, empty where there are none.

    >>> interval(Estimate(value=0.5, low=0.484, high=0.516))
    '0.484 to 0.516'
    """
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:.3f} to {estimate.high:.3f}"


def percent(change: float | None) -> str:
    """A relative change with its sign.

    >>> percent(0.5914), percent(-0.129), percent(None), percent(4.873)
    ('+59.1 %', '−12.9 %', '–', '+487 %')
    """
    if change is None or not math.isfinite(change):
        return "–"
    digits = 1 if abs(change) < 1 else 0
    return f"{100 * change:+.{digits}f} %".replace("-", "−")


def log10(value: float | None) -> str:
    """The decimal logarithm, as the paper prints epsilon.

    >>> log10(604670.96), log10(float("inf")), log10(None)
    ('5.78', '∞', '–')
    """
    if value is None or value <= 0:
        return "–"
    return "∞" if math.isinf(value) else f"{math.log10(value):.2f}".replace("-", "−")


def duration(seconds: float | None) -> str:
    """Seconds in words.

    >>> duration(None), duration(2.648), duration(42.3), duration(125), duration(7300)
    ('–', '2.6 s', '42 s', '2 min 05 s', '2 h 01 min')
    """
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"

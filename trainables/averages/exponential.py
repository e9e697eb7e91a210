"""Exponential moving average with a warm-up (De et al. 2022, section 3.3, arXiv 2204.13650)."""

from __future__ import annotations

_LONGEST = 0.9999


def weight(step: int, *, steps: int) -> float:
    """1 - min(0.9999, (1 + t) / (10 + t)), t = `step` >= 1: about a tenth of the steps so far.

    >>> round(weight(1, steps=100), 3), round(weight(100, steps=100), 3)
    (0.818, 0.082)
    """
    return 1.0 - min(_LONGEST, (1 + step) / (10 + step))

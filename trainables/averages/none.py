"""No average: the weights themselves."""

from __future__ import annotations


def weight(step: int, *, steps: int) -> float:
    """1."""
    return 1.0

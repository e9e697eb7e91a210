"""A constant learning rate."""

from __future__ import annotations


def factor(done: float) -> float:
    """1."""
    return 1.0

"""The learning rate stays as it is."""

from __future__ import annotations


def factor(done: float) -> float:
    """1."""
    return 1.0

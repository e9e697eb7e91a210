"""The plain mean of the second half of the iterates: suffix averaging (Rakhlin et al. 2012)."""

from __future__ import annotations


def weight(step: int, *, steps: int) -> float:
    """1 up to the first step of the second half, then 1 / (number of its steps so far).

    >>> [round(weight(step, steps=6), 2) for step in range(1, 7)]
    [1.0, 1.0, 1.0, 1.0, 0.5, 0.33]
    """
    return 1.0 / max(1, step - steps // 2)

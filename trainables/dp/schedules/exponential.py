"""Exponential decay: d(t) = exp(-tau t) (Dupuy et al. 2021, section 3.3)."""

import math

MARK = "square"  # in pictures


def factor(epoch: int, *, tau: float) -> float:
    """The factor at epoch t = 0, 1, ... for tau >= 0, in (0, 1].

    >>> factor(0, tau=0.5), round(factor(2, tau=0.5), 4)
    (1.0, 0.3679)
    """
    return math.exp(-tau * epoch)

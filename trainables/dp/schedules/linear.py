"""Linear decay: d(t) = 1 / (1 + tau t) (Dupuy et al. 2021, section 3.3)."""

MARK = "triangle"  # in pictures


def factor(epoch: int, *, tau: float) -> float:
    """The factor at epoch t = 0, 1, ... for tau >= 0, in (0, 1].

    >>> factor(0, tau=0.5), factor(2, tau=0.5)
    (1.0, 0.5)
    """
    return 1.0 / (1.0 + tau * epoch)

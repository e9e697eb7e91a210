"""No decay: d(t) = 1."""

MARK = "circle"  # in pictures


def factor(epoch: int, *, tau: float) -> float:
    """1.0 at every epoch t = 0, 1, ...; tau is ignored.

    >>> factor(7, tau=0.0)
    1.0
    """
    return 1.0

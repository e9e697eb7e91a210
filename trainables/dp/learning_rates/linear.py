"""The learning rate falls linearly to 0."""


def factor(done: float) -> float:
    """1 - done.

    >>> factor(0.0), factor(0.75)
    (1.0, 0.25)
    """
    return 1.0 - done

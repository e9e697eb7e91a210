"""The learning rate falls along half a cosine to 0 (Loshchilov and Hutter 2017, no
restarts).
"""

import math


def factor(done: float) -> float:
    """(1 + cos(pi done)) / 2.

    >>> factor(0.0), round(factor(0.5), 12)
    (1.0, 0.5)
    """
    return (1.0 + math.cos(math.pi * done)) / 2.0

"""Halton's sequence (1960), moved by a random shift modulo 1 (Cranley & Patterson 1976). Each point
is uniform, and the sequence leaves smaller gaps than independent points.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidInput

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


def shares(random: np.random.Generator, *, num_axes: int) -> Iterator[list[float]]:
    """Endless points of the unit cube, a shifted Halton sequence."""
    shift = random.random(num_axes)
    for index in itertools.count(1):
        yield halton(index, shift=shift)


def halton(index: int, *, shift: NDArray[np.float64]) -> list[float]:
    """Point number `index`, from 1, of Halton's sequence in the unit cube, moved by `shift`, modulo
    1. The first coordinates are the most even ones.

    Raises: InvalidInput for more coordinates than there are bases.
    """
    if len(shift) > len(_PRIMES):
        raise InvalidInput(f"expected at most {len(_PRIMES)} drawn axes with strategy quasi_random")
    point = [_radical_inverse(index, base=_PRIMES[axis]) for axis in range(len(shift))]
    found: list[float] = ((np.asarray(point) + shift) % 1.0).tolist()
    return found


def _radical_inverse(index: int, *, base: int) -> float:
    """The digits of `index` mirrored at the point: 6 = 110 in base 2 gives 0.011 = 0.375."""
    value, scale = 0.0, 1.0 / base
    while index:
        index, digit = divmod(index, base)
        value += digit * scale
        scale /= base
    return value

"""Halton's sequence (1960) with scrambled digits (Owen 2017). Each point is uniform,
and the sequence leaves smaller gaps than independent points.
"""

from collections.abc import Iterator

import numpy as np


def shares(random: np.random.Generator, *, num_axes: int) -> Iterator[list[float]]:
    """Endless points of the unit cube."""
    from scipy.stats import qmc  # which loads slowly

    sequence = qmc.Halton(num_axes, rng=random)
    while True:
        yield sequence.random()[0].tolist()

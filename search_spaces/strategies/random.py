"""Independent uniform draws."""

from collections.abc import Iterator

import numpy as np


def shares(random: np.random.Generator, *, num_axes: int) -> Iterator[list[float]]:
    """Endless independent points of the unit cube."""
    while True:
        yield random.random(num_axes).tolist()

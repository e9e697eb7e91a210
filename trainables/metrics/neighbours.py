"""Precision and recall of generated text by nearest neighbours (Kynkäänniemi et al. 2019).

A side's region is the union of balls around its rows, each as wide as the distance to the row's
k-th neighbour on its own side. Precision (plausibility) is the share of generated rows in the human
region; recall (coverage) is the share of human rows in the generated region. A generator that
repeats one good sentence has high precision and no recall.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.figures import text_rate

FIGURES = (
    text_rate(
        name="neighbour_precision",
        label="precision by neighbours",
        better="higher",
        has_ceiling=True,
    ),
    text_rate(
        name="neighbour_recall", label="recall by neighbours", better="higher", has_ceiling=True
    ),
)
K = 3  # the authors' choice
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Both shares, in [0, 1]."""

    precision: float
    recall: float


def of_features(generated: Floats, human: Floats) -> Coverage:
    """Coverage of feature rows [n, d] and [m, d], compared by their direction; n, m > `K`.

    >>> line = np.column_stack([np.ones(9), np.arange(9.0)])
    >>> of_features(line, line)
    Coverage(precision=1.0, recall=1.0)
    """
    from sklearn.preprocessing import normalize

    ours, theirs = normalize(generated), normalize(human)
    return Coverage(precision=_inside(ours, theirs), recall=_inside(theirs, ours))


def _inside(rows: Floats, region: Floats) -> float:
    """The share of `rows` in a ball around some row of `region`."""
    from sklearn.metrics import pairwise_distances
    from sklearn.neighbors import NearestNeighbors

    # The first neighbour of a row on its own side is the row itself.
    own, _ = NearestNeighbors(n_neighbors=K + 1).fit(region).kneighbors(region)
    radius = own[:, -1]
    # A ball's edge belongs to it, and equal texts lie on it only up to rounding.
    within = pairwise_distances(rows, region) <= radius * (1 + 1e-9) + 1e-9
    return float(within.any(axis=1).mean())

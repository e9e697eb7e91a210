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

from trainables.errors import InvalidInput
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


def of_features(generated: Floats, human: Floats, *, k: int = K) -> Coverage:
    """Coverage of feature rows [n, d] and [m, d], compared by their direction.

    >>> line = np.column_stack([np.ones(9), np.arange(9.0)])
    >>> of_features(line, line)
    Coverage(precision=1.0, recall=1.0)

    Raises: InvalidInput for rows of different width, or fewer than k + 1 of a side.
    """
    if generated.ndim != 2 or human.ndim != 2 or generated.shape[1] != human.shape[1]:
        raise InvalidInput(
            f"expected features [n, d] and [m, d], got {list(generated.shape)} and"
            f" {list(human.shape)}"
        )
    if min(len(generated), len(human)) <= k:
        raise InvalidInput(
            f"expected more than {k} rows of each side, got {len(generated)} and {len(human)}"
        )
    ours, theirs = _unit(generated), _unit(human)
    return Coverage(
        precision=_inside(ours, theirs, k=k),
        recall=_inside(theirs, ours, k=k),
    )


def _unit(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = rows / np.where(norms > 0, norms, 1.0)
    return unit


def _inside(rows: Floats, region: Floats, *, k: int) -> float:
    """The share of `rows` in a ball around some row of `region`."""
    from sklearn.metrics import pairwise_distances
    from sklearn.neighbors import NearestNeighbors

    # The first neighbour of a row on its own side is the row itself.
    own, _ = NearestNeighbors(n_neighbors=k + 1).fit(region).kneighbors(region)
    radius = own[:, -1]
    # A ball's edge belongs to it, and equal texts lie on it only up to rounding.
    within = pairwise_distances(rows, region) <= radius * (1 + 1e-9) + 1e-9
    return float(within.any(axis=1).mean())

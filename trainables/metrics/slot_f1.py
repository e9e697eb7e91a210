"""Entity-level micro F1 of slots in conlleval's reading of tags, as seqeval's default mode.

0/0 is 0, as there: where neither side has a slot, F1 says nothing and is 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainables.metrics._counts import Counts

HIGHER_IS_BETTER = True


def value(counts: Counts) -> NDArray[np.float64]:
    """F1 = 2 matched / (reference slots + hypothesis slots)."""
    return _ratio(2 * counts.matched, counts.reference_slots + counts.hypothesis_slots)


def precision(counts: Counts) -> NDArray[np.float64]:
    """Share of the hypothesis' slots that are right."""
    return _ratio(counts.matched, counts.hypothesis_slots)


def recall(counts: Counts) -> NDArray[np.float64]:
    """Share of the reference's slots that were found."""
    return _ratio(counts.matched, counts.reference_slots)


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(part / np.maximum(whole, 1))

"""Share of utterances with the intent and every slot right: exact match, sentence accuracy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainables.metrics._counts import Counts

HIGHER_IS_BETTER = True


def value(counts: Counts) -> NDArray[np.float64]:
    """Frame accuracy; 1 minus it is the interpretation error rate (irer; Fu et al. 2022)."""
    return np.asarray(1.0 - counts.frame_errors / counts.utterances)

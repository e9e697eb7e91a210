"""Share of utterances whose intent is right. Combined intents ("a#b") are one opaque label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainables.metrics._counts import Counts

HIGHER_IS_BETTER = True


def value(counts: Counts) -> NDArray[np.float64]:
    """Intent accuracy; 1 minus it is the intent classification error rate (icer)."""
    return np.asarray(1.0 - counts.intent_errors / counts.utterances)

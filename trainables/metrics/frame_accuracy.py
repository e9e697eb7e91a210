"""Share of utterances with the intent and every slot right: exact match, sentence
accuracy.
"""

import numpy as np
from numpy.typing import NDArray

from trainables.figures import nlu_rate
from trainables.metrics._counts import Counts, OfCounts

FIGURES = (
    nlu_rate(
        name="frame_accuracy", label="frame accuracy", better="higher", has_bounds=True
    ),
    nlu_rate(name="irer", label="interpretation error rate", better="lower"),
)


def value(counts: Counts) -> NDArray[np.float64]:
    """Frame accuracy."""
    return np.asarray(1.0 - counts.frame_errors / counts.utterances)


def error_rate(counts: Counts) -> NDArray[np.float64]:
    """Interpretation error rate (irer; Fu et al. 2022), 1 minus the accuracy."""
    return np.asarray(counts.frame_errors / counts.utterances)


OF_COUNTS: OfCounts = {"frame_accuracy": value, "irer": error_rate}

"""Share of utterances whose intent is right. Combined intents ("a#b") are one opaque
label.
"""

import numpy as np
from numpy.typing import NDArray

from trainables.figures import nlu_rate
from trainables.metrics._counts import Counts, OfCounts

OF_LABELS = "intents"  # without them it is undefined
FIGURES = (
    nlu_rate(
        name="intent_accuracy",
        label="intent accuracy",
        better="higher",
        has_bounds=True,
        is_validated=True,
    ),
    nlu_rate(name="icer", label="intent classification error rate", better="lower"),
)


def value(counts: Counts) -> NDArray[np.float64]:
    """Intent accuracy."""
    return np.asarray(1.0 - counts.intent_errors / counts.utterances)


def error_rate(counts: Counts) -> NDArray[np.float64]:
    """Intent classification error rate (icer), 1 minus the accuracy."""
    return np.asarray(counts.intent_errors / counts.utterances)


OF_COUNTS: OfCounts = {"intent_accuracy": value, "icer": error_rate}

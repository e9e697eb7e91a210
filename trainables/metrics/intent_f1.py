"""Micro F1 of single intents, where a record may have several of them (a declared separator)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainables.figures import nlu_rate
from trainables.metrics._counts import Counts, OfCounts

OF_LABELS = "intent sets"  # without which it is the accuracy
FIGURES = (nlu_rate(name="intent_f1", label="intent F1", better="higher", has_bounds=True),)


def value(counts: Counts) -> NDArray[np.float64]:
    """F1 = 2 matched / (reference intents + hypothesis intents); 0/0 is 0."""
    whole = counts.single_reference + counts.single_hypothesis
    return np.asarray(2 * counts.single_matched / np.maximum(whole, 1))


OF_COUNTS: OfCounts = {"intent_f1": value}

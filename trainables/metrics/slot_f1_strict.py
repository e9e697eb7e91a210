"""Entity-level micro F1 of slots in the strict IOB2 reading of tags, as seqeval's strict mode."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainables.figures import nlu_rate
from trainables.metrics._counts import Counts, OfCounts

OF_LABELS = "slots"  # without them it is undefined
FIGURES = (nlu_rate(name="slot_f1_strict", label="slot F1, strict tags", better="higher"),)


def value(counts: Counts) -> NDArray[np.float64]:
    """F1 of slots that B- starts; 0/0 is 0."""
    whole = counts.strict_reference_slots + counts.strict_hypothesis_slots
    return np.asarray(2 * counts.strict_matched / np.maximum(whole, 1))


OF_COUNTS: OfCounts = {"slot_f1_strict": value}

"""Entity-level micro F1 of slots: in conlleval's reading of tags, as seqeval's default
mode, and in the strict IOB2 reading, as seqeval's strict mode.

0/0 is 0, as in seqeval: where neither side has a slot, F1 is 0.
"""

import numpy as np
from numpy.typing import NDArray

from trainables.figures import nlu_rate
from trainables.metrics._counts import Counts, OfCounts

OF_LABELS = "slots"  # without them it is undefined
FIGURES = (
    nlu_rate(
        name="slot_f1",
        label="slot F1",
        better="higher",
        has_bounds=True,
        is_validated=True,
    ),
    *(
        nlu_rate(name=f"slot_{side}", label=f"slot {side}", better="higher")
        for side in ("precision", "recall")
    ),
    nlu_rate(name="slot_f1_strict", label="slot F1, strict tags", better="higher"),
)


def value(counts: Counts) -> NDArray[np.float64]:
    """F1 = 2 matched / (reference slots + hypothesis slots)."""
    return _ratio(2 * counts.matched, counts.reference_slots + counts.hypothesis_slots)


def precision(counts: Counts) -> NDArray[np.float64]:
    """Share of the hypothesis' slots that are right."""
    return _ratio(counts.matched, counts.hypothesis_slots)


def recall(counts: Counts) -> NDArray[np.float64]:
    """Share of the reference's slots that were found."""
    return _ratio(counts.matched, counts.reference_slots)


def strict(counts: Counts) -> NDArray[np.float64]:
    """F1 of slots that B- starts."""
    whole = counts.strict_reference_slots + counts.strict_hypothesis_slots
    return _ratio(2 * counts.strict_matched, whole)


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(part / np.maximum(whole, 1))


OF_COUNTS: OfCounts = {
    "slot_f1": value,
    "slot_precision": precision,
    "slot_recall": recall,
    "slot_f1_strict": strict,
}

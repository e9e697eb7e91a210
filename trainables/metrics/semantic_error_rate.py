"""Semantic error rate: intent and slot errors over the number of intents and slots.

SER = sum (intent wrong + S + D + I) / sum (1 + reference slots), over all utterances
together and never a mean of their ratios (Su et al. 2018; Makhoul et al. 1999 with the
intent as one more slot). Without intents it is the slot error rate: the 1 is left out.
Insertions make it exceed 1 at times. Lower is better.
"""

import numpy as np
from numpy.typing import NDArray

from trainables.figures import nlu_rate
from trainables.metrics._counts import Counts, OfCounts

FIGURES = (
    nlu_rate(
        name="ser",
        label="SER",
        better="lower",
        objective=True,
        is_listed=True,
        has_bounds=True,
        is_validated=True,
    ),
    nlu_rate(name="f_ser", label="F-SER", better="lower"),
)


def value(counts: Counts) -> NDArray[np.float64]:
    """SER, element-wise; 0 where reference and hypothesis are both empty."""
    right = np.maximum(counts.reference_intents + counts.reference_slots, 1)
    return np.asarray(_errors(counts) / right)


def symmetric(counts: Counts) -> NDArray[np.float64]:
    """F-SER: harmonic mean of SER and of SER with the hypothesis as the reference.

    Deletions of one are insertions of the other, so the errors are the same (Anand et
    al. 2023).
    """
    errors = _errors(counts)
    slots = counts.reference_slots + counts.hypothesis_slots
    # 2 / (a/e + b/e) with a, b the two denominators.
    return np.asarray(
        2.0 * errors / np.maximum(2 * counts.reference_intents + slots, 1)
    )


def _errors(counts: Counts) -> NDArray[np.float64]:
    return np.asarray(counts.intent_errors + counts.slot_errors, dtype=np.float64)


OF_COUNTS: OfCounts = {"ser": value, "f_ser": symmetric}

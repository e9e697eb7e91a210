"""Semantic error rate: intent and slot errors over what there was to get right.

SER = sum (intent wrong + S + D + I) / sum (1 + reference slots), over all utterances together and
never a mean of their ratios (Su et al. 2018; Makhoul et al. 1999 with the intent as one more slot).
Insertions make it exceed 1 at times. Lower is better.
"""

from __future__ import annotations

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
    """SER, element-wise; the denominator is at least the number of utterances."""
    return _errors(counts) / (counts.utterances + counts.reference_slots)


def symmetric(counts: Counts) -> NDArray[np.float64]:
    """F-SER: harmonic mean of SER and of SER with the hypothesis as the reference.

    Deletions of one are insertions of the other, so the errors are the same (Anand et al. 2023).
    """
    errors = _errors(counts)
    slots = counts.reference_slots + counts.hypothesis_slots
    # 2 / (a/e + b/e) with a, b the two denominators.
    return 2.0 * errors / (2 * counts.utterances + slots)


def _errors(counts: Counts) -> NDArray[np.float64]:
    return np.asarray(counts.intent_errors + counts.slot_errors, dtype=np.float64)


OF_COUNTS: OfCounts = {"ser": value, "f_ser": symmetric}

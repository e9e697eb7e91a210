"""Semantic error rate: intent and slot errors over what there was to get right.

SER = sum (intent wrong + S + D + I) / sum (1 + reference slots), over all utterances together and
never a mean of their ratios (Su et al. 2018; Makhoul et al. 1999 with the intent as one more slot).
Insertions make it exceed 1 at times. Lower is better.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainables.metrics._counts import Counts

HIGHER_IS_BETTER = False


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

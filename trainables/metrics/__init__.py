"""Metrics of models: pure functions on plain values, no torch, no disk.

semantic_error_rate, intent_accuracy, frame_accuracy, slot_f1, slot_f1_strict: `value(counts)`, an
NLU metric each, of the same counts. membership: the figures of a membership attack's scores.
`score` gives all NLU metrics of predictions at once, with bootstrap intervals; `compare` the
difference of two systems.
"""

from trainables.metrics._counts import Align, Counts, Match
from trainables.metrics._score import (
    FIGURES,
    compare,
    count_frames,
    score,
    summarize,
)

__all__ = [
    "FIGURES",
    "Align",
    "Counts",
    "Match",
    "compare",
    "count_frames",
    "score",
    "summarize",
]

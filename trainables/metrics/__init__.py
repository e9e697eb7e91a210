"""Metrics of models: pure functions on plain values, no torch, no disk.

semantic_error_rate, intent_accuracy, frame_accuracy, slot_f1: functions of the same
counts, an NLU metric each. membership: the figures of a membership attack's scores.
`summarize` gives all NLU metrics of counts at once, with bootstrap intervals; `compare`
the difference of two systems.
"""

from trainables.metrics._counts import Align as Align
from trainables.metrics._counts import Counts as Counts
from trainables.metrics._counts import Match as Match
from trainables.metrics._counts import count_frames as count_frames
from trainables.metrics._score import FIGURES as FIGURES
from trainables.metrics._score import compare as compare
from trainables.metrics._score import summarize as summarize

ENTRIES = (
    "frame_accuracy",
    "generation",
    "intent_accuracy",
    "membership",
    "parsing",
    "semantic_error_rate",
    "slot_f1",
    "text_space",
    "training",
)

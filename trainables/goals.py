"""Which figure says how good a trial is: by task, and which figures are better when larger. Pure.

A trial of intents and slots is judged by its semantic error rate, one that generates text by MAUVE
against human text: a loss would rank methods by what they predict, not by what they write.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal

Task = Literal["nlu", "synthesis"]

# In order of preference: what is measured on validation records comes first where it is known,
# because a choice by test error makes the test error optimistic.
QUALITY: Mapping[str, tuple[str, ...]] = {
    "nlu": ("validation_ser", "ser"),
    "synthesis": ("mauve", "word_type_overlap"),
}
# What a scheduler compares after an epoch.
AFTER_AN_EPOCH: Mapping[str, str] = {"nlu": "validation_ser", "synthesis": "validation_loss"}
# Its short name in commands, tables and file names.
HEADLINE: Mapping[str, str] = {"nlu": "ser", "synthesis": "mauve"}
WORDS: Mapping[str, str] = {"ser": "SER", "mauve": "MAUVE"}

_LARGER = (
    "mauve*",
    "word_type_overlap*",
    "function_type_overlap*",
    "function_top*",
    "well_formed_rate",
    "distinct_rate",
    "parse_valid_rate",
    "neighbour_*",
    "*accuracy",
    "*slot_f1*",
)


def validated(metrics: Mapping[str, float | None]) -> tuple[str, float | None]:
    """The words and the value of what validation found after an epoch.

    >>> validated({"validation_ser": 0.25, "validation_loss": 1.5}), validated({})
    (('SER', 0.25), ('SER', None))
    """
    for words, name in (("SER", AFTER_AN_EPOCH["nlu"]), ("loss", AFTER_AN_EPOCH["synthesis"])):
        if metrics.get(name) is not None:
            return words, metrics[name]
    return "SER", None


def larger_is_better(metric: str) -> bool:
    """Whether a trial with more of it is the better one.

    >>> larger_is_better("mauve"), larger_is_better("chi_square"), larger_is_better("ser")
    (True, False, False)
    """
    return any(fnmatchcase(metric, pattern) for pattern in _LARGER)


def cost(metric: str, value: float) -> float:
    """`value` with the sign that makes smaller better.

    >>> cost("mauve", 0.75), cost("ser", 0.25)
    (-0.75, 0.25)
    """
    return -value if larger_is_better(metric) else value

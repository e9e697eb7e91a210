"""What each task is after: the figure that says how good a trial is. Pure.

A trial of intents and slots is judged by its semantic error rate, one that generates text by MAUVE
against human text: a loss would rank methods by what they predict, not by what they write.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainables.figures import label

# In order of preference: what is measured on validation records comes first where it is known,
# because a choice by test error makes the test error optimistic.
QUALITY: Mapping[str, tuple[str, ...]] = {
    "nlu": ("validation_ser", "ser"),
    "synthesis": ("mauve", "word_type_overlap"),
}
# What a scheduler compares after an epoch.
AFTER_AN_EPOCH: Mapping[str, str] = {"nlu": "validation_ser", "synthesis": "validation_loss"}
# What stands for a trial in commands, tables and file names.
HEADLINE: Mapping[str, str] = {"nlu": "ser", "synthesis": "mauve"}


def validated(metrics: Mapping[str, float | None]) -> tuple[str, float | None]:
    """The words and the value of what validation found after an epoch.

    >>> validated({"validation_ser": 0.25, "validation_loss": 1.5}), validated({})
    (('SER', 0.25), ('SER', None))
    """
    known = [name for name in AFTER_AN_EPOCH.values() if metrics.get(name) is not None]
    name = known[0] if known else AFTER_AN_EPOCH["nlu"]
    return label(name).removeprefix("validation "), metrics.get(name)

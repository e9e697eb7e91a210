"""Membership inference attacks and audits: each file is one, a higher score says "member".

An attack is `NEEDS` and `scores(target, knowledge, *, seed)`: arrays in, an array out, with no
model and no text in sight. `Signals` is what a trial leaves behind for them, `allowed` which
attacks a split mode allows.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trainables.attacks._headline import FIGURES, Strongest, auc_of, every_auc, oriented, strongest
from trainables.attacks._knowledge import Knowledge, allowed, refuse_unless_allowed
from trainables.attacks._signals import (
    FEATURES,
    Signals,
    features_of,
    gather,
    read_signals,
    write_signals,
)
from trainables.attacks._texts import bag_of_words

if TYPE_CHECKING:
    from trainables.attacks._panel import (
        curves,
        estimates,
        panel,
        possible,
        record_scores,
        sweep_panel,
        sweep_scores,
    )

# A config that names attacks imports this package: the statistics wait until they are asked for.
_OF_PANEL = (
    "curves",
    "estimates",
    "panel",
    "possible",
    "record_scores",
    "sweep_panel",
    "sweep_scores",
)

__all__ = [
    "FEATURES",
    "FIGURES",
    "Knowledge",
    "Signals",
    "Strongest",
    "allowed",
    "auc_of",
    "bag_of_words",
    "curves",
    "estimates",
    "every_auc",
    "features_of",
    "gather",
    "oriented",
    "panel",
    "possible",
    "read_signals",
    "record_scores",
    "refuse_unless_allowed",
    "strongest",
    "sweep_panel",
    "sweep_scores",
    "write_signals",
]


def __getattr__(name: str) -> Any:
    if name not in _OF_PANEL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}._panel"), name)

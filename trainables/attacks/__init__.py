"""Membership inference attacks and audits, one a file; a higher score means "member".

An attack has `NEEDS` and `scores(target, knowledge, *, seed)`, from arrays to an array, without
access to model or text. `Signals` is the input that a trial writes for attacks. `allowed` gives
the attacks that a split mode allows.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trainables.attacks._headline import (
    FIGURES,
    Strongest,
    auc_of,
    audited,
    every_auc,
    oriented_attacks,
    strongest,
)
from trainables.attacks._knowledge import Knowledge, refuse_unless_allowed, valid_attacks
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
    from trainables.attacks._estimates import require_delta
    from trainables.attacks._panel import (
        curves,
        estimates,
        panel,
        possible,
        record_scores,
        sweep_panel,
        sweep_scores,
    )

# A config that names attacks imports this package, so statistics are imported at first use.
_LATER = {
    "require_delta": "_estimates",
    **dict.fromkeys(
        (
            "curves",
            "estimates",
            "panel",
            "possible",
            "record_scores",
            "sweep_panel",
            "sweep_scores",
        ),
        "_panel",
    ),
}

__all__ = [
    "FEATURES",
    "FIGURES",
    "Knowledge",
    "Signals",
    "Strongest",
    "auc_of",
    "audited",
    "bag_of_words",
    "curves",
    "estimates",
    "every_auc",
    "features_of",
    "gather",
    "oriented_attacks",
    "panel",
    "possible",
    "read_signals",
    "record_scores",
    "refuse_unless_allowed",
    "require_delta",
    "strongest",
    "sweep_panel",
    "sweep_scores",
    "valid_attacks",
    "write_signals",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)

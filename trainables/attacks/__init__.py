"""Membership inference attacks and audits, one a file; a higher score means "member".

An attack has `NEEDS` and `scores(target, knowledge, *, seed)`, from arrays to an array, without
access to model or text; one that needs references, the other trials of a sweep, has
`all_scores(trials)`, an array for each. `Signals` is the input that a trial writes for attacks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trainables.attacks._headline import Strongest as Strongest
from trainables.attacks._headline import attacks_on_models as attacks_on_models
from trainables.attacks._headline import auc_of as auc_of
from trainables.attacks._headline import audited as audited
from trainables.attacks._headline import every_auc as every_auc
from trainables.attacks._headline import figures as figures
from trainables.attacks._headline import oriented_attacks as oriented_attacks
from trainables.attacks._headline import strongest as strongest
from trainables.attacks._knowledge import Knowledge as Knowledge
from trainables.attacks._knowledge import valid_attacks as valid_attacks
from trainables.attacks._signals import FEATURES as FEATURES
from trainables.attacks._signals import Signals as Signals
from trainables.attacks._signals import bag_of_words as bag_of_words
from trainables.attacks._signals import features_of as features_of
from trainables.attacks._signals import gather as gather
from trainables.attacks._signals import read_signals as read_signals
from trainables.attacks._signals import write_signals as write_signals

if TYPE_CHECKING:
    from trainables.attacks._estimates import require_delta as require_delta
    from trainables.attacks._panel import curves as curves
    from trainables.attacks._panel import estimates as estimates
    from trainables.attacks._panel import panel as panel
    from trainables.attacks._panel import possible as possible
    from trainables.attacks._panel import record_scores as record_scores
    from trainables.attacks._panel import sweep_panel as sweep_panel
    from trainables.attacks._panel import sweep_scores as sweep_scores

ENTRIES = {
    "bavaria": "relative",  # to the other trials of a sweep
    "blind": "control",  # it sees no model, so its figure is no leakage
    "calibrated": "relative",
    "lira": "relative",
    "loss_threshold": "attack",
    "one_run": "attack",
    "quantile": "attack",
    "rmia": "relative",
    "shadow": "attack",
}
FIGURES = figures()

# A config that names attacks imports this package, so statistics are imported at first use.
_LATER = {
    "require_delta": "_estimates",
    "curves": "_panel",
    "estimates": "_panel",
    "panel": "_panel",
    "possible": "_panel",
    "record_scores": "_panel",
    "sweep_panel": "_panel",
    "sweep_scores": "_panel",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)

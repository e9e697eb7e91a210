"""Membership inference attacks and audits: each file is one, a higher score says "member".

An attack is `NEEDS` and `scores(target, knowledge, *, seed)`: arrays in, an array out, with no
model and no text in sight. `Signals` is what a trial leaves behind for them, `ALLOWED` which split
mode allows which attack.
"""

from trainables.attacks._knowledge import ALLOWED, Knowledge
from trainables.attacks._panel import estimates, panel, shadow_ablations, sweep_panel
from trainables.attacks._signals import (
    FEATURES,
    Signals,
    features_of,
    gather,
    read_signals,
    signals_from,
    write_signals,
)
from trainables.attacks._texts import bag_of_words

__all__ = [
    "ALLOWED",
    "FEATURES",
    "Knowledge",
    "Signals",
    "bag_of_words",
    "estimates",
    "features_of",
    "gather",
    "panel",
    "read_signals",
    "shadow_ablations",
    "signals_from",
    "sweep_panel",
    "write_signals",
]

"""Membership inference attacks and audits: each file is one, a higher score says "member".

An attack is `NEEDS` and `scores(target, knowledge, *, seed)`: arrays in, an array out, with no
model and no text in sight. `Signals` is what a trial leaves behind for them, `ALLOWED` which split
mode allows which attack.
"""

from trainables.attacks._knowledge import ALLOWED, Knowledge
from trainables.attacks._signals import (
    FEATURES,
    Signals,
    features_of,
    gather,
    read_signals,
    signals_from,
    write_signals,
)

__all__ = [
    "ALLOWED",
    "FEATURES",
    "Knowledge",
    "Signals",
    "features_of",
    "gather",
    "read_signals",
    "signals_from",
    "write_signals",
]

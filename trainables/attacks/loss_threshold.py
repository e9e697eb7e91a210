"""Threshold on the loss: what a model has seen, it is surer of (Yeom et al. 2018).

Needs the record's true labels and nothing else: no other model, no other data.
"""

from __future__ import annotations

from trainables.attacks._knowledge import Knowledge
from trainables.attacks._signals import Floats, Signals

NEEDS: frozenset[str] = frozenset()


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """log p of the true intent and tags, [n]; higher says member."""
    return target.log_confidence

"""Threshold on the loss, which is lower on members (Yeom et al. 2018).

Needs only the record's true labels, no other model and no other data.
"""

from trainables.attacks._knowledge import Knowledge
from trainables.attacks._signals import Floats, Signals

NEEDS: frozenset[str] = frozenset()


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """log p of the true intent and tags, [n]; higher means member."""
    return target.log_confidence

"""A planned trial with its price."""

from __future__ import annotations

from dataclasses import dataclass

from sweep.store.plans import PlannedTrial
from trainables.privacy.mechanism import Mechanism


@dataclass(frozen=True, kw_only=True)
class PricedTrial:
    """A planned trial with what its epochs cost, and whose records they are about. `gpus`: how many
    GPUs its processes hold together, or which share of one.
    """

    trial: PlannedTrial
    mechanism: Mechanism
    dataset: str
    dataset_name: str
    gpus: float = 0.0

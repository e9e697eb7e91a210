"""A planned trial with its price."""

from __future__ import annotations

from dataclasses import dataclass

from sweep.store.plans import PlannedTrial
from trainables.privacy.mechanism import Mechanism


@dataclass(frozen=True, kw_only=True)
class PricedTrial:
    """A planned trial with the mechanism of its epochs and its data set. `gpus`: the number of GPUs
    of its processes together, or the share of one.
    """

    trial: PlannedTrial
    mechanism: Mechanism
    dataset: str
    dataset_name: str
    gpus: float = 0.0

"""The step of an engine without privacy: the mean gradient of the step's records."""

from __future__ import annotations

import numpy as np
import torch

from trainables.engines._engine import Engine, StepStats, finite_sum
from trainables.engines._passes import passes
from trainables.privacy.sampling import Draw


class PlainEngine(Engine):
    """Divides by the number of records drawn, which is allowed because no privacy is claimed."""

    def _divisor(self, draw: Draw) -> float:
        return float(max(1, draw.num_drawn))

    def _fill(self, draw: Draw, *, epoch: int, index: int) -> StepStats:
        loss = torch.zeros((), dtype=torch.float64, device=self.layout.device)
        weights = np.ones(len(draw.records))
        for part in passes(draw, limit=self._physical, units_apart=False):
            loss += finite_sum(self._add_piece(draw, part, weights, self._flat))
        # The norm of this process' mean gradient; nothing is clipped.
        norm = self._flat.norm() / max(1, len(draw.records))
        none = torch.zeros_like(loss)
        return StepStats(
            loss=loss, records=len(draw.records), norm=norm, clipped=none, nonfinite=none, units=1
        )

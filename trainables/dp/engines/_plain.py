"""The step of an engine without privacy: the mean gradient of the step's records."""

import math

import numpy as np
import torch

from trainables.dp.engines._physical_batches import passes
from trainables.dp.engines.engine import Engine, StepStats, sum_of_losses
from trainables.dp.sampling import SampledBatch


class PlainEngine(Engine):
    """Divides by the number of records drawn, which is allowed because no privacy is
    claimed.

    The mean gradient is scaled down to `gradient_clip_norm` (Pascanu et al. 2013) where
    there is one. It matters to Adam: its second moments remember the large gradients of
    the first steps for a thousand steps.
    """

    def _divisor(self, draw: SampledBatch) -> float:
        drawn = float(max(1, draw.num_drawn))
        if self._clip_norm is None:
            return drawn
        # The sum of all processes: each of them finds the same norm.
        norm = float(self._flat.group_norms().norm()) / drawn
        return drawn * max(1.0, norm / self._clip_norm)

    def _fill(self, draw: SampledBatch, *, epoch: int, index: int) -> StepStats:
        losses = torch.zeros(2, dtype=torch.float64, device=self.layout.device)
        weights = np.ones(len(draw.records))
        for part in passes(draw, limit=self._physical, units_apart=False):
            losses += sum_of_losses(self._add_piece(draw, part, weights, self._flat))
        # The norm of this process' mean gradient; nothing is clipped.
        norm = self._flat.group_norms().norm().reshape(1) / max(1, len(draw.records))
        return StepStats.of(losses, norm, records=len(draw.records), bound=math.inf)

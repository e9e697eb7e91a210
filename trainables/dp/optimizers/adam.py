"""Adam (Kingma and Ba 2015), torch's own."""

import torch

from trainables.dp.flat import Layout
from trainables.dp.optimizers._optimizer import Optimizer


def make(layout: Layout, *, learning_rate: float) -> Optimizer:
    """Adam with torch's defaults."""
    # The fused pass reads memory in order, whatever the strides of a weight.
    fused = all(p.is_contiguous() for p in layout.parameters)
    return Optimizer(torch.optim.Adam(layout.parameters, lr=learning_rate, fused=fused))

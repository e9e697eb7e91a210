"""Gradient descent with momentum (Polyak 1964): v = 0.7 v + g, w = w - lr v.

For few, large batches. Unlike Adam it does not rescale directions in which the noise is
as large as the signal.
"""

import torch

from trainables.dp.flat import Layout
from trainables.dp.optimizers._optimizer import Optimizer

MOMENTUM = 0.7


def make(layout: Layout, *, learning_rate: float) -> Optimizer:
    """torch's SGD with momentum 0.7."""
    return Optimizer(
        torch.optim.SGD(layout.parameters, lr=learning_rate, momentum=MOMENTUM)
    )

"""L-BFGS (Liu and Nocedal 1989) for a convex loss on every record: torch's own, with the
last 10 pairs and one gradient a step, without line search.

It learns curvature from differences of gradients, so these must be exact: the same
records in every step and no noise. Heads on fixed features then need 30 steps where
Adam needs 300. The first step has length `learning_rate` at most (in the sum of
absolute values), the others are `learning_rate` times the quasi-Newton step: 1.0 is
right.
"""

import torch

from trainables.dp.flat import Layout
from trainables.dp.optimizers._optimizer import Optimizer

_HISTORY = 10


def make(layout: Layout, *, learning_rate: float) -> Optimizer:
    """torch's L-BFGS, one gradient a step."""
    return Optimizer(
        torch.optim.LBFGS(
            layout.parameters, lr=learning_rate, max_iter=1, history_size=_HISTORY
        )
    )

"""Adam (Kingma and Ba 2015), compiled over the flat gradient where possible."""

from __future__ import annotations

from trainables.optimizers._optimizer import Optimizer
from trainables.privacy.flat import Layout
from trainables.privacy.flat_adam import FlatAdam


def make(layout: Layout, *, learning_rate: float) -> Optimizer:
    """Adam with torch's defaults."""
    return FlatAdam(layout, learning_rate=learning_rate)

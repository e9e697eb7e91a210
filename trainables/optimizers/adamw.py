"""AdamW towards the start (Loshchilov and Hutter 2019; the decay of Li et al. 2018, L2-SP).

The weights decay to their starting values, those of public pretraining, instead of 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.optimizers._optimizer import Optimizer, TorchOptimizer
from trainables.privacy.flat import FlatGradient, Layout

DECAY = 0.01


class DecayToStart(TorchOptimizer):
    """w = w - lr * 0.01 * (w - start), then Adam's step."""

    def __init__(self, layout: Layout, *, learning_rate: float) -> None:
        super().__init__(
            layout,
            lambda parameters: torch.optim.Adam(parameters, lr=learning_rate),
            learning_rate=learning_rate,
        )
        # Found by the first step: a private start sets the weights after this.
        self._start: list[Tensor] = []

    @torch.no_grad()
    def step(self, gradient: FlatGradient, *, share: float) -> None:
        """See `Optimizer`; the decay is taken at the weights before the step."""
        if not self._start:
            self._start = [p.detach().clone() for p in self._parameters]
        for parameter, start in zip(self._parameters, self._start, strict=True):
            parameter.lerp_(start, self.learning_rate * DECAY)
        super().step(gradient, share=share)

    def state_dict(self) -> dict[str, Tensor]:
        """Also the start, once there was a step."""
        return super().state_dict() | {
            f"start.{k}": start.clone() for k, start in enumerate(self._start)
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `Optimizer`."""
        super().load_state_dict(state)
        if "start.0" in state:
            self._start = [
                torch.empty_like(parameter).copy_(state[f"start.{k}"])
                for k, parameter in enumerate(self._parameters)
            ]


def make(layout: Layout, *, learning_rate: float) -> Optimizer:
    """AdamW whose decay of 0.01 is towards the weights at the first step."""
    return DecayToStart(layout, learning_rate=learning_rate)

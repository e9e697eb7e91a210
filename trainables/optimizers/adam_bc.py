"""DP-AdamBC: Adam without the bias that noise puts on its second moment (Tang et al. 2024).

The mean of g^2 is the signal's plus the variance of the noise, which dominates the step of every
coordinate. The mechanism determines this variance, so it is subtracted. Tang, Shpilevskiy
and Lecuyer, "DP-AdamBC: Your DP-Adam Is Actually DP-SGD (Unless You Apply Bias Correction)", AAAI
2024, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.errors import InvalidInput
from trainables.optimizers._optimizer import Optimizer
from trainables.privacy.flat import FlatGradient, Layout

_BETAS = (0.9, 0.999)
_EPS = 1e-8


class AdamBC:
    """w = w - lr m / (sqrt(max(v - phi, gamma)) + 1e-8), m and v as in Adam, both corrected for
    their start at 0; phi is the same moving average of the noise's variance as v is of g^2.

    The paper tunes gamma, which would cost epsilon. Here it is the standard error of v as an
    estimate of phi, below which signal and noise are indistinguishable. Without noise the step is
    Adam's.
    """

    def __init__(self, layout: Layout, *, learning_rate: float) -> None:
        self.layout = layout
        self.learning_rate = learning_rate
        self.noise_stds: Sequence[float] = ()
        self._steps = 0
        self._first = torch.zeros(layout.size, dtype=layout.dtype, device=layout.device)
        self._second = torch.zeros_like(self._first)
        self._variances = torch.zeros(len(layout.names), dtype=torch.float64)

    @torch.no_grad()
    def step(self, gradient: FlatGradient, *, share: float) -> None:
        """See `Optimizer`."""
        g = gradient.data.mul_(share)
        keep1, keep2 = _BETAS
        self._steps += 1
        self._first.lerp_(g, 1 - keep1)
        self._second.mul_(keep2).addcmul_(g, g, value=1 - keep2)
        stds = torch.tensor(self.noise_stds or [0.0] * len(self._variances), dtype=torch.float64)
        self._variances.lerp_(stds.square(), 1 - keep2)
        done1, done2 = 1 - keep1**self._steps, 1 - keep2**self._steps
        spread = _relative_error(self._steps)
        for k, (parameter, kept) in enumerate(
            zip(self.layout.parameters, self._variances.tolist(), strict=True)
        ):
            where = self.layout.segment(k)
            phi = kept / done2
            second = (self._second[where] / done2).sub_(phi).clamp_(min=spread * phi)
            size = self._first[where] / second.sqrt_().add_(_EPS)
            parameter.add_(size.view(parameter.shape), alpha=-self.learning_rate / done1)

    def state_dict(self) -> dict[str, Tensor]:
        """See `Optimizer`."""
        return {
            "adam_bc.first": self._first.clone(),
            "adam_bc.second": self._second.clone(),
            "adam_bc.variances": self._variances.clone(),
            "adam_bc.steps": torch.tensor(self._steps),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `Optimizer`.

        Raises: InvalidInput where the state is of another model.
        """
        own = (("first", self._first), ("second", self._second), ("variances", self._variances))
        for name, mine in own:
            its = state[f"adam_bc.{name}"]
            if its.shape != mine.shape:
                raise InvalidInput(
                    f"expected optimiser state of {mine.numel()} numbers, got {its.numel()}"
                )
            mine.copy_(its)
        self._steps = int(state["adam_bc.steps"])


def _relative_error(steps: int) -> float:
    """Relative standard deviation of v, a moving average of squares of normals.

    sqrt(2 sum_i w_i^2) with the weights w_i of the last `steps` squares.

    >>> round(_relative_error(1), 6), round(_relative_error(100) * 10, 2)
    (1.414214, 1.41)
    """
    keep = _BETAS[1]
    weights = (1 - keep) * (1 + keep**steps) / ((1 + keep) * (1 - keep**steps))
    return math.sqrt(2 * weights)


def make(layout: Layout, *, learning_rate: float) -> Optimizer:
    """DP-AdamBC with Adam's default betas."""
    return AdamBC(layout, learning_rate=learning_rate)

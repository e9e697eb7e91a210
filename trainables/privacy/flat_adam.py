"""Adam (Kingma and Ba 2015) over one flat gradient: torch's defaults, the moments as flat vectors.

On a CPU with a compiler a step is one pass over gradient, moments and weights, combined with the
pass that adds the noise (`noise.add_noise_`). Noise is bound by arithmetic and Adam by memory, so
the combined pass is faster. Elsewhere it is torch's fused Adam. Both give the same numbers to
float32 rounding; a trial uses one of them on one machine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from trainables.errors import InvalidInput
from trainables.privacy import _native
from trainables.privacy.flat import FlatGradient, Layout

_BETAS = (0.9, 0.999)
_EPS = 1e-8


class FlatAdam:
    """Moves the parameters of `layout`. `steps` were taken so far; `learning_rate` is that of the
    next one."""

    def __init__(self, layout: Layout, *, learning_rate: float) -> None:
        self.layout = layout
        self.steps = 0
        self.learning_rate = learning_rate
        self.noise_stds: Sequence[float] = ()  # not read
        self._exp_avg = torch.zeros(layout.size, dtype=layout.dtype, device=layout.device)
        self._exp_avg_sq = torch.zeros_like(self._exp_avg)
        self._native = _native.adam() if _is_plain(layout) else None
        self._torch = None if self._native else self._torch_adam()
        self._starts = np.array([*layout.starts, layout.size], dtype=np.int64)
        self._places = np.zeros(len(layout.names), dtype=np.uint64)

    @property
    def is_compiled(self) -> bool:
        """Whether `begin` may be called."""
        return self._native is not None

    def step(self, gradient: FlatGradient, *, share: float) -> None:
        """Multiply `gradient` by `share`, in place, and take the step on it."""
        if self._native is not None:
            update = self.begin(share=share)
            self._native(gradient.data.data_ptr(), self.layout.size, ctypes.addressof(update))
            return
        assert self._torch is not None
        gradient.data.mul_(share)
        gradient.attach()
        self._torch.param_groups[0]["lr"] = self.learning_rate
        self._torch.step()
        gradient.detach()
        self.steps += 1

    def begin(self, *, share: float) -> _native.Update:
        """The next step for the compiled passes; one of them must apply it once to every number.

        The result is valid until the next call.
        """
        self.steps += 1
        # A parameter may have been given other memory since the last step.
        self._places[:] = [p.data_ptr() for p in self.layout.parameters]
        keep1, keep2 = _BETAS
        root = (1 - keep2**self.steps) ** 0.5
        return _native.Update(
            num=len(self._places),
            starts=self._starts.ctypes.data,
            parameters=self._places.ctypes.data,
            exp_avg=self._exp_avg.data_ptr(),
            exp_avg_sq=self._exp_avg_sq.data_ptr(),
            share=share,
            keep1=keep1,
            new1=1 - keep1,
            keep2=keep2,
            new2=1 - keep2,
            size=self.learning_rate * root / (1 - keep1**self.steps),
            epsilon=_EPS * root,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Copies: the moments, flat, and the number of steps."""
        return {
            "adam.exp_avg": self._exp_avg.clone(),
            "adam.exp_avg_sq": self._exp_avg_sq.clone(),
            "adam.step": torch.tensor(float(self.steps)),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`.

        Raises: InvalidInput where it is of another model.
        """
        for name, own in (("adam.exp_avg", self._exp_avg), ("adam.exp_avg_sq", self._exp_avg_sq)):
            if state[name].numel() != self.layout.size:
                raise InvalidInput(
                    f"expected optimiser state of {self.layout.size} numbers,"
                    f" got {state[name].numel()}"
                )
            own.copy_(state[name])
        self.steps = int(state["adam.step"])
        if self._torch is not None:
            self._torch = self._torch_adam()

    def _torch_adam(self) -> torch.optim.Adam:
        """torch's, on the same moments."""
        adam = torch.optim.Adam(
            self.layout.parameters,
            lr=self.learning_rate,
            betas=_BETAS,
            eps=_EPS,
            # The fused pass reads memory in order, whatever the strides of a weight.
            fused=all(p.is_contiguous() for p in self.layout.parameters),
        )
        for k, parameter in enumerate(self.layout.parameters):
            where = self.layout.segment(k)
            adam.state[parameter] = {
                "step": torch.tensor(float(self.steps), device=self.layout.device),
                "exp_avg": self._exp_avg[where].view(parameter.shape),
                "exp_avg_sq": self._exp_avg_sq[where].view(parameter.shape),
            }
        return adam


def _is_plain(layout: Layout) -> bool:
    """Whether the compiled passes can read all parameters."""
    return (
        layout.device.type == "cpu"
        and layout.dtype == torch.float32
        and all(p.is_contiguous() for p in layout.parameters)
    )

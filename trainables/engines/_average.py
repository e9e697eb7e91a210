"""The running average of a trial's iterates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from trainables import catalogue


class RunningAverage:
    """The average of `parameters` over the steps, by an entry of the shelf `averages`.

    No copy is kept while the average equals the newest iterate.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], name: str, *, steps: int) -> None:
        self._parameters = parameters
        self._weight = catalogue.entry("averages", name).weight
        self._steps = steps
        self._mean: list[Tensor] | None = None

    def before(self, step: int) -> None:
        """Must be called before step `step` (from 1) moves the parameters."""
        if self._mean is None and self._weight(step, steps=self._steps) < 1:
            self._mean = [p.detach().clone() for p in self._parameters]

    @torch.no_grad()
    def after(self, step: int) -> None:
        """Update the average with the parameters after step `step`."""
        weight = self._weight(step, steps=self._steps)
        if weight >= 1:
            self._mean = None
        for mean, parameter in zip(self._mean or (), self._parameters, strict=False):
            mean.lerp_(parameter, weight)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """A context in which the parameters have the average's values."""
        if self._mean is None:
            yield
            return
        iterate = [p.detach().clone() for p in self._parameters]
        self._assign(self._mean)
        try:
            yield
        finally:
            self._assign(iterate)

    def state_dict(self) -> dict[str, Tensor]:
        """Copies under flat names; nothing where the average is the iterate."""
        return {f"average.{k}": mean.clone() for k, mean in enumerate(self._mean or ())}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`, on parameters that are restored already."""
        self._mean = None
        if "average.0" in state:
            self._mean = [
                state[f"average.{k}"].to(p.device).clone() for k, p in enumerate(self._parameters)
            ]

    @torch.no_grad()
    def _assign(self, values: Sequence[Tensor]) -> None:
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.copy_(value)

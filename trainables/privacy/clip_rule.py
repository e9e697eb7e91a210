"""An entry of `trainables/clipping` on the layers of one model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from trainables import catalogue
from trainables.clipping import flat
from trainables.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class ClipRule:
    """Which parameters are clipped together, and how.

    Where there is more than one group, `group_of` has that of each trained parameter. Groups are
    settled by the model alone, so they and their number are public.
    """

    factor: Callable[[Tensor, float], Tensor] = flat.factor
    num_groups: int = 1
    group_of: Mapping[nn.Parameter, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, model: nn.Module) -> ClipRule:
        """The entry `name` on a model."""
        entry = catalogue.entry("clipping", name)
        if not entry.BY_LAYER:
            return cls(entry.factor)
        layers = _layers(model)
        return cls(entry.factor, len(layers), {p: k for k, own in enumerate(layers) for p in own})

    def bound(self, max_grad_norm: float) -> float:
        """The norm that each group keeps to: the squares of all add up to C^2."""
        return max_grad_norm / math.sqrt(self.num_groups)

    def factors(self, norms: Tensor, max_grad_norm: float) -> Tensor:
        """What gradients of these norms are multiplied by, a group's each; 0 where a norm is so
        large that its factor has not the precision of a float any more.
        """
        found = self.factor(norms, self.bound(max_grad_norm))
        return found.masked_fill_(found < torch.finfo(found.dtype).tiny, 0.0)

    def group(self, parameters: Sequence[nn.Parameter]) -> int:
        """The one group that these parameters of a layer are in.

        Raises: InvalidInput where they are in several, whose norms would have to be told apart.
        """
        if self.num_groups == 1:
            return 0
        found = {self.group_of[p] for p in parameters}
        if len(found) != 1:
            raise InvalidInput(
                f"expected layers that share no parameter with {len(found) - 1} others for"
                " privacy.clipping per layer"
            )
        return found.pop()


FLAT = ClipRule()


def _layers(model: nn.Module) -> list[set[nn.Parameter]]:
    """The trained parameters of each module that has its own; modules that share one are one."""
    layers: list[set[nn.Parameter]] = []
    for module in model.modules():
        own = {p for p in module.parameters(recurse=False) if p.requires_grad}
        shared = [layer for layer in layers if layer & own]
        if own:
            layers = [layer for layer in layers if not layer & own] + [own.union(*shared)]
    return layers

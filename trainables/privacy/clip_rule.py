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
    """The groups of parameters that are clipped together, and the clipping rule.

    Where there is more than one group, `group_of` has that of each trained parameter. Groups depend
    on the model alone, so they and their number are public.
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
        """The norm bound of each group; the squares of all add up to C^2."""
        return max_grad_norm / math.sqrt(self.num_groups)

    def factors(self, norms: Tensor, max_grad_norm: float) -> Tensor:
        """The factors for gradients of these norms, one a group; 0 where a norm is so large that
        its factor loses the precision of a float.
        """
        found = self.factor(norms, self.bound(max_grad_norm))
        return found.masked_fill_(found < torch.finfo(found.dtype).tiny, 0.0)

    def group(self, parameters: Sequence[nn.Parameter]) -> int:
        """The one group that these parameters of a layer are in.

        Raises: InvalidInput where they are in several, whose norms would have to be separate.
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
    """The trained direct parameters of each module; modules that share one are merged."""
    layers: list[set[nn.Parameter]] = []
    for module in model.modules():
        own = {p for p in module.parameters(recurse=False) if p.requires_grad}
        shared = [layer for layer in layers if layer & own]
        if own:
            layers = [layer for layer in layers if not layer & own] + [own.union(*shared)]
    return layers

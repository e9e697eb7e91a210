"""Clipping of a unit's whole gradient, over all parameter groups together, to norm at most C.

A unit is a record (DP-SGD) or a micro-batch (eDP-SGD, Dupuy et al. 2021, Algorithm 1). Group k is
divided by alpha_k before its norm is taken and multiplied by it after. The two cancel except in the
norm, so a unit costs one norm and one multiplication by its factor.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.errors import InvalidInput
from trainables.guarantee.flat import FlatGradient


def clip_factor(norms: Tensor, max_grad_norm: float) -> Tensor:
    """min(1, C / norm) (Abadi et al. 2016); 0 where the norm is not finite, or so large that the
    factor loses the precision of a float.

    >>> clip_factor(torch.tensor([0.0, 1.0, 4.0, float("nan")]), 2.0)
    tensor([1.0000, 1.0000, 0.5000, 0.0000])
    """
    found = (max_grad_norm / norms).clamp_(max=1.0)
    found.masked_fill_(found < torch.finfo(found.dtype).tiny, 0.0)
    # A norm that overflowed has lost the direction, so that unit contributes zero as well.
    return torch.where(torch.isfinite(norms), found, torch.zeros_like(found))


class GradientHook:
    """Algorithm 1's hook: clips the whole gradient of a unit in place, in few passes.

    `group_scale` float64[K] is alpha_k in the order of the layout.
    """

    def __init__(self, *, max_grad_norm: float, group_scale: Tensor) -> None:
        self.max_grad_norm = max_grad_norm
        self._inverse_squares = group_scale.double().reciprocal().square()
        self._is_plain = bool((group_scale == 1).all())

    def norm(self, gradient: FlatGradient) -> Tensor:
        """float64 scalar: the norm in scaled space."""
        if self._is_plain:
            return gradient.norm()
        squares = gradient.group_norms().square()
        return torch.dot(squares, self._inverse_squares).sqrt()

    def clip_(self, gradient: FlatGradient) -> Tensor:
        """Clip `gradient` in place (zero it where it is not finite); its norm before that."""
        norm, factor = self.defer_clip(gradient)
        if factor != 1.0:
            gradient.data.mul_(factor)
        return norm

    def defer_clip(self, gradient: FlatGradient) -> tuple[Tensor, float]:
        """(norm before clipping, factor): `gradient` is clipped once it is multiplied by it.

        On a CPU the next pass over `gradient` applies the factor. A gradient that is not finite is
        zeroed here, and a GPU's is clipped here without waiting for it; the factor then is 1.
        """
        norm = self.norm(gradient)
        factor = clip_factor(norm, self.max_grad_norm)
        if norm.is_cuda:  # no branch on the host
            gradient.data.mul_(factor.to(gradient.data.dtype))
            gradient.data.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
            return norm, 1.0
        if factor == 0.0:  # 0 times inf would be NaN
            gradient.data.zero_()
            return norm, 1.0
        return norm, float(factor)


# Layers whose output for a record depends on other records, or that store their statistics.
_MIXING = (nn.modules.batchnorm._BatchNorm,)
_TRACKING = (nn.modules.instancenorm._InstanceNorm,)


def refuse_mixing(model: nn.Module) -> None:
    """Raises: InvalidInput naming the first layer that mixes records."""
    for name, layer in model.named_modules():
        mixes = isinstance(layer, _MIXING) or (
            isinstance(layer, _TRACKING) and layer.track_running_stats
        )
        if mixes:
            raise InvalidInput(
                "expected layers that process each record independently, got"
                f" {type(layer).__name__} at {name or 'the root'}: its statistics mix"
                " records, so clipping bounds nothing (use layer norm)"
            )

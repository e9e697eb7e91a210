"""The clip of one unit's whole gradient in a flat buffer, in few passes over it."""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.guarantee.clipping import clip_factor
from trainables.privacy.flat import FlatGradient


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

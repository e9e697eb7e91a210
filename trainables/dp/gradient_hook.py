"""The clip of one unit's whole gradient in a flat buffer."""

from torch import Tensor

from trainables.dp.clipping import clip_factor
from trainables.dp.flat import FlatGradient


class GradientHook:
    """Algorithm 1's hook (Dupuy et al. 2021): clips the whole gradient of one unit in
    place to `max_grad_norm`, measured in the space scaled by `group_scale`, float64[K],
    which is alpha_k in the order of the layout. It is the slow definition for a unit
    that takes a pass of its own; books of layers and `torch.func` must give the same.
    """

    def __init__(self, *, max_grad_norm: float, group_scale: Tensor) -> None:
        self.max_grad_norm = max_grad_norm
        self._group_scale = group_scale.double()

    def norm(self, gradient: FlatGradient) -> Tensor:
        """float64 scalar: the norm in scaled space."""
        norm: Tensor = (gradient.group_norms() / self._group_scale).norm()
        return norm

    def clip_(self, gradient: FlatGradient) -> Tensor:
        """Clip `gradient` in place (zero it where it is not finite); its norm before
        that.
        """
        norm = self.norm(gradient)
        gradient.data.mul_(
            clip_factor(norm, self.max_grad_norm).to(gradient.data.dtype)
        )
        gradient.data.nan_to_num_(nan=0.0)  # which 0 times infinity is
        return norm

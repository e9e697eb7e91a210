"""Clipping of a unit's whole gradient, over all parameter groups together, to norm at
most C.

A unit is a record (DP-SGD) or a micro-batch (eDP-SGD, Dupuy et al. 2021, Algorithm 1).
Group k is divided by alpha_k before its norm is taken and multiplied by it after. The
two cancel except in the norm, so a unit costs one norm and one multiplication by its
factor.
"""

import torch
from torch import Tensor, nn

from trainables.errors import InvalidInput


def clip_factor(norms: Tensor, max_grad_norm: float) -> Tensor:
    """The factor min(1, C / norm) of each unit, for its gradient's `norms` [U] and the
    clip norm C = `max_grad_norm` (Abadi et al. 2016), in the type of `norms`. It is 0
    where the norm is not finite, or so large that the factor loses the precision of a
    float: such a unit adds nothing to a step.

    >>> clip_factor(torch.tensor([0.0, 1.0, 4.0, float("nan")]), 2.0)
    tensor([1.0000, 1.0000, 0.5000, 0.0000])
    """
    found = (max_grad_norm / norms).clamp_(max=1.0)
    found.masked_fill_(found < torch.finfo(found.dtype).tiny, 0.0)
    # A norm that overflowed has lost the direction, so that unit contributes zero as
    # well.
    return torch.where(torch.isfinite(norms), found, torch.zeros_like(found))


# Layers whose output for a record depends on other records, or that store their
# statistics.
_MIXING = (nn.modules.batchnorm._BatchNorm,)
_TRACKING = (nn.modules.instancenorm._InstanceNorm,)


def refuse_mixing(model: nn.Module) -> None:
    """Refuse a model with a layer whose output for one record depends on others, such
    as batch normalisation or running statistics: the gradient of a unit would then not
    be a function of that unit alone, and clipping it would bound nothing. Only known
    layers of torch are recognised; the float64 check of a step sees what others mix.

    Raises: InvalidInput naming the first such layer and its place in the model.
    """
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

"""The release of a step before its noise by the definition: one record at a time, in float64.

Nothing of the engines, the clipping or the book-keeping is used.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def in_double(model: nn.Module) -> nn.Module:
    """A copy with the same weights, and the same dropout masks."""
    return copy.deepcopy(model).double().train()


def losses_of(model: Any, loader: Any, records: list[int]) -> Tensor:
    """float64[B]."""
    return model.losses(loader.batch(np.array(records))).double()


def record_gradient(model: nn.Module, loader: Any, record: int) -> Tensor:
    """float64[D]: d loss / d trained weights, flat, in the order of the parameters."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    loss = losses_of(model, loader, [record]).sum()
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    zeros = (torch.zeros_like(p) for p in parameters)
    parts = (z if g is None else g for g, z in zip(found, zeros, strict=True))
    return torch.cat([part.flatten() for part in parts])


def sum_of_clipped(
    model: nn.Module,
    loader: Any,
    units: list[list[int]],
    *,
    max_grad_norm: float,
    group_scale: Tensor,
) -> tuple[Tensor, Tensor]:
    """float64[D] the sum of the units' clipped mean gradients, and [U] their norms before.

    A unit's mean gradient is divided by alpha_k in group k, cut to norm C, and multiplied back.
    """
    named = [(name, p.numel()) for name, p in model.named_parameters() if p.requires_grad]
    sizes = [size for _, size in named]
    alpha = group_scale.double().repeat_interleave(torch.tensor(sizes))
    total, norms = torch.zeros(sum(sizes), dtype=torch.float64), []
    for unit in units:
        mean = torch.stack([record_gradient(model, loader, i) for i in unit]).mean(0) / alpha
        total += mean * min(1.0, max_grad_norm / float(mean.norm())) * alpha
        norms.append(mean.norm())
    return total, torch.stack(norms)

"""The release of a step before its noise by the definition: one record at a time, in
float64, with nothing of the engines, the clipping or the book-keeping.
"""

import copy

import numpy as np
import torch


def in_double(model):
    """A copy with the same weights, and the same dropout masks."""
    return copy.deepcopy(model).double().train()


def losses_of(model, loader, records):
    """float64[B]."""
    return model.losses(loader.batch(np.array(records))).double()


def record_gradient(model, loader, record):
    """float64[D]: d loss / d trained weights, flat, in the order of the parameters."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    loss = losses_of(model, loader, [record]).sum()
    parts = torch.autograd.grad(loss, parameters, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts])


def sum_of_clipped(model, loader, units, *, max_grad_norm, group_scale):
    """float64[D] the sum of the units' clipped mean gradients, and [U] their norms
    before: a mean gradient is divided by alpha_k in group k, cut to norm C, and
    multiplied back.
    """
    named = [
        (name, p.numel()) for name, p in model.named_parameters() if p.requires_grad
    ]
    sizes = [size for _, size in named]
    alpha = group_scale.double().repeat_interleave(torch.tensor(sizes))
    total, norms = torch.zeros(sum(sizes), dtype=torch.float64), []
    for unit in units:
        mean = (
            torch.stack([record_gradient(model, loader, i) for i in unit]).mean(0)
            / alpha
        )
        norms.append(float(mean.norm()))
        total += mean * min(1.0, max_grad_norm / norms[-1]) * alpha
    return total, torch.tensor(norms, dtype=torch.float64)

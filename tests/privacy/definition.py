"""The clipped sum by its definition: one backward pass a unit, for any model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trainables.dp.clipping import clip_factor


def clipped_sum(
    model: Any,
    batch: Any,
    *,
    unit_of_record: Tensor,
    num_units: int,
    weight_of_record: Tensor,
    max_grad_norm: float,
    group_scale: Tensor,
    out: Tensor,
) -> Tensor:
    """Add sum_u factor_u g_u to `out`; the norms [U] before clipping.

    `layers.bookkeeping` has the same contract. g_u = sum over records i of unit u of
    weight_i grad loss_i; factor_u = min(1, C / norm_u) with norm_u^2 = sum_k |g_u,k|^2
    / alpha_k^2. A unit whose norm is not finite adds nothing, a unit without records
    has norm 0. `unit_of_record` int64[B] in 0..U-1, `weight_of_record` [B];
    `group_scale` [K] and the flat `out` [D] follow the trainable
    `model.named_parameters()`.

    A record whose *activations* are not finite invalidates its whole batch here (0
    times inf in a weight gradient), which the book-keeping prevents; such a record
    needs a separate batch.
    """
    parameters = [p for _, p in model.named_parameters() if p.requires_grad]
    places = torch.split(out, [p.numel() for p in parameters])
    losses = model.losses(batch)
    norms = losses.new_zeros(num_units)
    for unit in torch.unique(unit_of_record).tolist():
        mine = unit_of_record == unit
        # A weight of 0 times a NaN of another unit would be NaN: select, do not mask.
        value = (losses[mine] * weight_of_record[mine]).sum()
        grads = torch.autograd.grad(
            value, parameters, retain_graph=True, allow_unused=True
        )
        dense = [
            (
                place,
                (grad.to_dense() if grad.is_sparse else grad).flatten(),
                float(alpha),
            )
            for place, grad, alpha in zip(places, grads, group_scale, strict=True)
            if grad is not None
        ]
        norm = (
            torch.stack([(g.double() / alpha).square().sum() for _, g, alpha in dense])
            .sum()
            .sqrt()
        )
        norms[unit] = norm
        factor = float(clip_factor(norm, max_grad_norm))
        if factor > 0.0:  # 0 times inf would be NaN
            for place, grad, _ in dense:
                place.add_(grad, alpha=factor)
    return norms

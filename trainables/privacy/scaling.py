"""alpha_k, the scale of parameter group k (Dupuy et al. 2021; McMahan & Andrew 2018).

Where alpha_k comes from a gradient it is proportional to that gradient's norm in group k, with
sum_k alpha_k^2 = 1, so no alpha_k exceeds 1 whatever the data.
"""

from __future__ import annotations

import torch
from torch import Tensor

_FLOOR = 1e-3  # of the root mean square alpha: a group without gradient stays trainable


def from_norms(norms: Tensor) -> Tensor:
    """float64[K]: alpha_k from the norms of one gradient's groups, floored, sum of squares 1.

    Where norms are not finite, or all 0, every alpha_k is equal.

    >>> from_norms(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000], dtype=torch.float64)
    """
    norms = norms.double()
    total = norms.square().sum().sqrt()
    if not torch.isfinite(total) or total == 0:
        norms, total = torch.ones_like(norms), norms.new_tensor(len(norms)).sqrt()
    alpha = (norms / total).clamp(min=_FLOOR / len(norms) ** 0.5)
    return alpha / alpha.square().sum().sqrt()


def unit_scales(num_groups: int) -> Tensor:
    """float64[K]: alpha_k = 1 for every group, the `none` of a config."""
    return torch.ones(num_groups, dtype=torch.float64)


def cap(alpha: Tensor, max_group_scale: float) -> Tensor:
    """`alpha` with no entry above the declared public bound that the accounting relies on."""
    return alpha.clamp(max=max_group_scale)

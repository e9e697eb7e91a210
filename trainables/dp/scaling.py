"""alpha_k, the scale of parameter group k (Dupuy et al. 2021; McMahan & Andrew 2018).

Where alpha_k comes from a gradient it is that gradient's norm in group k (`normalise:
none`), or this over the norm of the whole gradient (`unit`), so that no alpha_k exceeds
1 whatever the data. The paper says "proportional to the norm" and names no factor.
"""

import torch
from torch import Tensor

_FLOOR = 1e-3  # of the root mean square alpha: a group without gradient stays trainable


def from_norms(norms: Tensor, *, unit: bool = True, cap: float | None = None) -> Tensor:
    """float64[K]: alpha_k from the norms of one mean gradient's groups, floored; with
    `unit` the sum of squares is 1, and none exceeds `cap`.

    Where norms are not finite, or all 0, every alpha_k is equal.

    >>> from_norms(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000], dtype=torch.float64)
    >>> from_norms(torch.tensor([3.0, 4.0]), unit=False, cap=3.5)
    tensor([3.0000, 3.5000], dtype=torch.float64)
    """
    norms = norms.double()
    total = norms.square().sum().sqrt()
    if not torch.isfinite(total) or total == 0:
        norms = torch.ones_like(norms)
        total = norms.new_tensor(len(norms)).sqrt()
    alpha = norms.clamp(min=_FLOOR * float(total) / len(norms) ** 0.5)
    if unit:
        alpha = alpha / alpha.square().sum().sqrt()
    return alpha if cap is None else alpha.clamp(max=cap)

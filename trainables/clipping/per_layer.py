"""Each layer's gradient is clipped separately, to C / sqrt(G) with G layers (McMahan et al. 2018;
Bu et al. 2023, "On the accuracy and efficiency of group-wise clipping"). A layer with a large
gradient then does not shrink the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

BY_LAYER = True


def factor(norms: Tensor, bound: float) -> Tensor:
    """min(1, C / (sqrt(G) norm))."""
    return (bound / norms).clamp_(max=1.0)

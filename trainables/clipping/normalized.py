"""Every gradient is scaled to nearly norm C, short ones too: AUTO-S (Bu et al. 2022, "Automatic
Clipping", arXiv 2206.07136). C then acts as a factor of the learning rate and needs no tuning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

BY_LAYER = False
_STABILITY = 0.01  # the paper's gamma: much shorter gradients keep their relative sizes


def factor(norms: Tensor, bound: float) -> Tensor:
    """C / (norm + 0.01)."""
    return bound / (norms + _STABILITY)

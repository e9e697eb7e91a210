"""Every gradient is brought to norm C nearly, short ones too: AUTO-S (Bu et al. 2022, "Automatic
Clipping", arXiv 2206.07136). C is then a part of the learning rate, so one thing less to choose.
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

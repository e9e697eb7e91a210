"""The whole gradient is scaled to norm C where it is longer (Abadi et al. 2016)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

BY_LAYER = False


def factor(norms: Tensor, bound: float) -> Tensor:
    """min(1, C / norm)."""
    return (bound / norms).clamp_(max=1.0)

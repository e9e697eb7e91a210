"""Low-rank adapters (Hu et al. 2022) on frozen linear maps, as layers with book-keeping.

The frozen map is plain; only the two thin matrices are trained, so their norms are exact and cheap.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from trainables.errors import InvalidInput
from trainables.layers.linear import Linear
from trainables.layers.packing import Rows


class Adapted(nn.Module):
    """x -> W x + (alpha / rank) up(down(x)); `up` starts at 0, so nothing changes at first."""

    def __init__(self, base: nn.Module, *, width: int, out: int, rank: int, alpha: float) -> None:
        super().__init__()
        if not 1 <= rank <= min(width, out):
            raise InvalidInput(
                f"expected 1 <= synthesis.lora_rank <= {min(width, out)}, got {rank}"
            )
        self.base = base
        self.scale = alpha / rank
        self.down = Linear(width, rank, bias=False)
        self.up = Linear(rank, out, bias=False)
        nn.init.normal_(self.down.weight, std=width**-0.5)
        nn.init.zeros_(self.up.weight)

    @classmethod
    def of(cls, base: Linear | Adapted, *, rank: int, alpha: float) -> Adapted:
        """Adapters on one of this project's linear maps."""
        assert isinstance(base, Linear)
        return cls(base, width=base.in_features, out=base.out_features, rank=rank, alpha=alpha)

    def forward(self, x: Tensor, rows: Rows) -> Tensor:
        """Rows [n, width] -> [n, out]."""
        out: Tensor = self.base(x, rows) + self.scale * self.up(self.down(x, rows), rows)
        return out


class AdaptedForeign(Adapted):
    """The same around a linear map of `transformers`, on [B, T, width].

    `rows` names the record of each of the B * T rows and is set before the model runs.
    """

    def __init__(self, base: nn.Module, *, width: int, out: int, rank: int, alpha: float) -> None:
        super().__init__(base, width=width, out=out, rank=rank, alpha=alpha)
        self.rows: Rows | None = None

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # called by foreign code
        """[B, T, width] -> [B, T, out]."""
        flat = x.reshape(-1, x.shape[-1])
        rows = self.rows or Rows(torch.arange(len(flat)).numpy(), len(flat))
        added = self.up(self.down(flat, rows), rows)
        out: Tensor = self.base(x) + self.scale * added.view(*x.shape[:-1], -1)
        return out


def merged(state: Mapping[str, Tensor], *, scale: float) -> dict[str, Tensor]:
    """The state of the same model without adapters: W + scale up down instead of each W."""
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        place, _, last = name.rpartition(".")
        owner, _, part = place.rpartition(".")
        if part == "base":
            if last == "weight":
                added = state[f"{owner}.up.weight"] @ state[f"{owner}.down.weight"]
                value = value + scale * added
            found[f"{owner}.{last}"] = value
        elif f"{owner}.base.weight" not in state:
            found[name] = value
    return found


MaybeAdapted = Linear | Adapted

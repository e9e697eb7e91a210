"""Several character CNNs at once: each member's distinct words meet its own filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.layers.char_cnn import CharCnn, CharCnnEntry
from trainables.layers.packing import Rows
from trainables.layers.stacked.blocks import Blocks, anchor, views_of, weights_of
from trainables.layers.tape import Tape, UnitRows, Units, Views, apply, current, row_factors


@dataclass(eq=False, kw_only=True)
class StackedCharCnnEntry(CharCnnEntry):
    """Words of all `layers`; `layer` is the first one, `owner` int64[W] the member of each word."""

    layers: Sequence[CharCnn]
    blocks: Blocks
    owner: Tensor

    def _tables(self, units: UnitRows, taken: slice) -> tuple[Tensor, Tensor]:
        of_unit = torch.zeros(units.num_units, dtype=torch.int64, device=self.g.device)
        of_unit.index_copy_(0, units.unit, self.blocks.member)
        embedding, filters = self._stacked()
        return embedding[of_unit[taken]], filters[of_unit[taken]]

    def _stacked(self) -> tuple[Tensor, Tensor]:
        embedding, filters = (
            torch.stack(weights_of(self.layers, name)) for name in ("embedding", "filters")
        )
        return embedding, filters

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """One Q a member."""
        scale = row_factors(units, factors, self.rows)
        g = self.g if scale is None else self.g * scale.unsqueeze(1)
        if self.layer.bias.requires_grad:
            self.blocks.add_columns(views_of(self.layers, "bias", views), g, None)
        q = self._joined(g, self.owner, len(self.layers))
        for parameter, gradients in self._gradients(q, self._stacked()).items():
            name = "filters" if parameter is self.layer.filters else "embedding"
            torch._foreach_add_(views_of(self.layers, name, views), list(gradients.unbind()))


class _StackedCharCnn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        _: Tensor,
        chars: Tensor,
        word: Tensor,
        layer: StackedCharCnn,
        rows: Rows,
        tape: Tape,
    ) -> Tensor:
        layers = layer.layers
        blocks = Blocks.of(rows, chars.device)
        # Every word of a batch is some row's, and of one member.
        owner = torch.zeros(chars.shape[0], dtype=torch.int64, device=chars.device)
        owner.index_copy_(0, word, blocks.member)
        embedding, filters, bias = (
            torch.stack(weights_of(layers, name)) for name in ("embedding", "filters", "bias")
        )
        kernel = filters.shape[2]
        windows = chars.unfold(1, kernel, 1)  # [W, places, k]
        places = windows.shape[1]
        table = (windows + owner.view(-1, 1, 1) * embedding.shape[1]).flatten()
        seen = embedding.flatten(0, 1).index_select(0, table).view(len(windows) * places, -1)
        counts = torch.bincount(owner, minlength=len(layers)).tolist()
        words = Blocks(tuple(places * count for count in counts), chars.device)
        values = words.product(seen, list(filters.flatten(2))).view(len(windows), places, -1)
        # As in `CharCnn`: windows around places beyond the word do not compete.
        beyond = chars[:, kernel // 2 : kernel // 2 + places] == 0
        beyond[:, 0] = False
        best, place = values.masked_fill_(beyond.unsqueeze(2), -math.inf).max(1)
        features = (best + bias.index_select(0, owner)).relu_()
        winners = windows.gather(1, place.unsqueeze(2).expand(-1, -1, kernel))
        ctx.save_for_backward(features, winners, word, owner)
        ctx.layer = (layers, rows, tape, blocks)
        return features.index_select(0, word)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[None, ...]:
        features, winners, word, owner = ctx.saved_tensors
        layers, rows, tape, blocks = ctx.layer
        g = g * (features > 0).index_select(0, word)
        tape.receive(
            StackedCharCnnEntry(
                layers[0], winners, word, g, rows, layers=layers, blocks=blocks, owner=owner
            )
        )
        return (None,) * 6


class StackedCharCnn(nn.Module):
    """`CharCnn` of several models."""

    def __init__(self, layers: Sequence[CharCnn]) -> None:
        super().__init__()
        self.layers = tuple(layers)

    def forward(self, chars: Tensor, word: Tensor, rows: Rows) -> Tensor:
        """As `CharCnn`; the words of each member lie together, and no word is two members'."""
        return apply(_StackedCharCnn, anchor(self.layers), chars, word, self, rows, current())

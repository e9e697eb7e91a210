"""Stacked linear maps, look-ups and layer norms: one row at a time, each with its member's weights.

The entries keep the norms of the plain ones: a unit's norm does not involve weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.layers.embedding import Embedding, EmbeddingEntry
from trainables.layers.layer_norm import LayerNorm, LayerNormEntry
from trainables.layers.linear import Linear, LinearEntry
from trainables.layers.packing import Rows
from trainables.layers.stacked.blocks import Blocks, anchor, views_of, weights_of
from trainables.layers.tape import (
    Tape,
    Units,
    Views,
    apply,
    current,
    row_factors,
    scaled_pair,
    trainable,
)


@dataclass(eq=False, kw_only=True)
class StackedLinearEntry(LinearEntry):
    """Rows of all `layers`; `weight` and `bias` are the first one's."""

    layers: Sequence[Linear]
    blocks: Blocks

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """A product a member."""
        scale = row_factors(units, factors, self.rows)
        if self.weight.requires_grad:
            g, x = scaled_pair(self.g, self.x, scale)
            self.blocks.add_outer(views_of(self.layers, "weight", views), g, x)
        if self.bias is not None and self.bias.requires_grad:
            self.blocks.add_columns(views_of(self.layers, "bias", views), self.g, scale)


class _StackedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, _: Tensor, layer: StackedLinear, tape: Tape, rows: Rows
    ) -> Tensor:
        blocks = Blocks.of(rows, x.device)
        layers = layer.layers
        ctx.save_for_backward(x)
        ctx.layer = (layers, tape, rows, blocks)
        biases = None if layers[0].bias is None else weights_of(layers, "bias")
        return blocks.product(x, weights_of(layers, "weight"), biases)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        layers, tape, rows, blocks = ctx.layer
        first = layers[0]
        entry = StackedLinearEntry(
            first.weight, first.bias, x.detach(), g, rows, layers=layers, blocks=blocks
        )
        if entry.parameters:
            tape.receive(entry)
        g_x = None
        if ctx.needs_input_grad[0]:
            g_x = blocks.product(g, [w.t() for w in weights_of(layers, "weight")])
        return g_x, None, None, None, None


class StackedLinear(nn.Module):
    """`Linear` of several models."""

    def __init__(self, layers: Sequence[Linear]) -> None:
        super().__init__()
        self.layers = tuple(layers)

    def forward(self, x: Tensor, rows: Rows) -> Tensor:
        """Packed rows [n, in_features] -> [n, out_features]."""
        return apply(_StackedLinear, x, anchor(self.layers), self, current(), rows)


@dataclass(eq=False, kw_only=True)
class StackedEmbeddingEntry(EmbeddingEntry):
    """Ids of all `layers`; `weight` is the first one's."""

    layers: Sequence[Embedding]
    blocks: Blocks

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """Only the rows that occur are touched."""
        scale = row_factors(units, factors, self.rows)
        g = self.g if scale is None else self.g * scale.unsqueeze(1)
        for view, own in zip(
            views_of(self.layers, "weight", views), self.blocks.slices, strict=True
        ):
            view.index_add_(0, self.ids[own], g[own])


class _StackedEmbedding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, _: Tensor, ids: Tensor, layer: StackedEmbedding, tape: Tape, rows: Rows
    ) -> Tensor:
        blocks = Blocks.of(rows, ids.device)
        ctx.layer = (layer.layers, ids, tape, rows, blocks)
        return _look_up(layer.layers, ids, blocks)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[None, ...]:
        layers, ids, tape, rows, blocks = ctx.layer
        tape.receive(
            StackedEmbeddingEntry(layers[0].weight, ids, g, rows, layers=layers, blocks=blocks)
        )
        return (None,) * 5


def _look_up(layers: Sequence[Embedding], ids: Tensor, blocks: Blocks) -> Tensor:
    weights = weights_of(layers, "weight")
    return torch.cat(
        [F.embedding(ids[own], w) for w, own in zip(weights, blocks.slices, strict=True)]
    )


class StackedEmbedding(nn.Module):
    """`Embedding` of several models."""

    def __init__(self, layers: Sequence[Embedding]) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self.num_embeddings = layers[0].num_embeddings

    def forward(self, ids: Tensor, rows: Rows) -> Tensor:
        """Packed ids [n] -> [n, embedding_dim]."""
        if anchor(self.layers) is None:
            return _look_up(self.layers, ids, Blocks.of(rows, ids.device))
        return apply(_StackedEmbedding, anchor(self.layers), ids, self, current(), rows)


@dataclass(eq=False, kw_only=True)
class StackedLayerNormEntry(LayerNormEntry):
    """Rows of all `layers`; `weight` and `bias` are the first one's."""

    layers: Sequence[LayerNorm]
    blocks: Blocks

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """Column sums."""
        scale = row_factors(units, factors, self.rows)
        for parameter, values in self._values():
            name = "weight" if parameter is self.weight else "bias"
            self.blocks.add_columns(views_of(self.layers, name, views), values, scale)


class _StackedLayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, _: Tensor, layer: StackedLayerNorm, tape: Tape, rows: Rows
    ) -> Tensor:
        blocks = Blocks.of(rows, x.device)
        layers = layer.layers
        normal, mean, rstd = torch.native_layer_norm(x, [x.shape[1]], None, None, layers[0].eps)
        weight, bias = (
            torch.stack(weights_of(layers, name)).index_select(0, blocks.member)
            for name in ("weight", "bias")
        )
        ctx.save_for_backward(x, normal, mean, rstd, weight)
        ctx.layer = (layers, tape, rows, blocks)
        return torch.addcmul(bias, normal, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, normal, mean, rstd, weight = ctx.saved_tensors
        layers, tape, rows, blocks = ctx.layer
        first = layers[0]
        if trainable(first.weight, first.bias):
            tape.receive(
                StackedLayerNormEntry(
                    first.weight, first.bias, normal, g, rows, layers=layers, blocks=blocks
                )
            )
        g_x, _, _ = torch.ops.aten.native_layer_norm_backward(
            g * weight, x, [x.shape[1]], mean, rstd, None, None, [True, False, False]
        )
        return g_x, None, None, None, None


class StackedLayerNorm(nn.Module):
    """`LayerNorm` of several models."""

    def __init__(self, layers: Sequence[LayerNorm]) -> None:
        super().__init__()
        self.layers = tuple(layers)

    def forward(self, x: Tensor, rows: Rows) -> Tensor:
        """Packed rows [n, D] -> [n, D]."""
        return apply(_StackedLayerNorm, x, anchor(self.layers), self, current(), rows)

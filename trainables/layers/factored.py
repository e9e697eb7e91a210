"""A linear map whose output rows share parameters: W = S U with a fixed S.

As `Linear` followed by S, but S is applied to the weights instead of the rows, so that both large
products have as many columns as outputs, not as parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.layers.gram import FixedRows, gram_norms
from trainables.layers.packing import Rows
from trainables.layers.precision import as_operand, product
from trainables.layers.products import by_weight, library_for
from trainables.layers.rounding import Size, upper_bound, upper_row_norms
from trainables.layers.tape import (
    Tape,
    Views,
    apply,
    clear_units,
    current,
    row_factors,
    scaled_pair,
    trainable,
)
from trainables.layers.units import Units


@dataclass(eq=False)
class FactoredEntry:
    """Rows `x` [n, I] and the gradient of the loss by the output rows, `g` [n, O]."""

    layer: FactoredLinear
    x: Tensor
    g: Tensor
    rows: Rows
    fixed: FixedRows | None = None  # what is known of `x`

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """The shared rows U, where they are trained."""
        return trainable(self.layer.weight)

    def squared_norms(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Tensor:
        """|S^T sum g x^T|^2, as that of a `Linear` whose output gradients are the rows of g S."""
        terms = [(self.x, weights[self.layer.weight])]
        shares = self.layer.shares
        with library_for(self.g, len(self.g) * shares.numel()):
            of_parts = self.g @ shares
        found = gram_norms(units.of(self.rows), terms, of_parts, 0.0, fixed=self.fixed)
        return upper_bound(found.upper, self.size(units, weights))

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """|S| sum of |g| |x|, because the released gradient is S^T times a sum of rows g x^T."""
        of = units.of(self.rows)
        lengths = upper_row_norms(self.g) * (self.fixed or FixedRows(self.x)).upper_norms(self.x)
        scale = self.layer.share_norm * math.sqrt(weights[self.layer.weight])
        total = lengths.new_zeros(of.num_units).index_add_(0, of.unit, lengths)
        return Size(total * scale, of.most_rows + len(self.layer.shares))

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """One large product, then a small one straight into the flat buffer."""
        g, x = scaled_pair(self.g, self.x, row_factors(units, factors, self.rows))
        with library_for(x, g.numel() * x.shape[1]):
            of_outputs = g.t() @ x
        views[self.layer.weight].addmm_(self.layer.shares.t(), of_outputs)

    def without(self, units: Units, dropped: Tensor) -> FactoredEntry:
        """Rows of the dropped units set to 0."""
        x, g = (clear_units(values, units, dropped, self.rows) for values in (self.x, self.g))
        return replace(self, x=x, g=g, fixed=None)


class _TapedFactored(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: Any, tape: Tape, rows: Rows) -> Tensor:
        own = layer.outputs_of(weight)
        ctx.save_for_backward(x, own)
        ctx.layer = (layer, tape, rows, layer.known_of(x))
        return by_weight(x, own.to(x.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, own = ctx.saved_tensors
        layer, tape, rows, fixed = ctx.layer
        kept, g_kept = x.detach().to(own.dtype), g.to(own.dtype)
        tape.receive(FactoredEntry(layer, kept, g_kept, rows, fixed))
        return product(g, own) if ctx.needs_input_grad[0] else None, None, None, None, None


class FactoredLinear(nn.Module):
    """Packed rows [n, in_features] -> [n, outputs]; `weight` [parts, in_features] is U.

    `shares` float32[outputs, parts] is S, fixed and public. Weights start at 0.
    """

    shares: Tensor

    def __init__(self, in_features: int, shares: Tensor) -> None:
        super().__init__()
        self.register_buffer("shares", shares, persistent=False)
        self.share_norm = float(torch.linalg.matrix_norm(shares.double(), 2)) * (1 + 1e-9)
        self.weight = nn.Parameter(torch.zeros(shares.shape[1], in_features))
        self._known: FixedRows | None = None

    def outputs_of(self, weight: Tensor) -> Tensor:
        """[outputs, in_features]: S U."""
        return self.shares @ weight

    def known_of(self, x: Tensor) -> FixedRows:
        """What the last step found of `x`; nothing yet of another tensor than the last one."""
        if self._known is None or not self._known.are(x):
            self._known = FixedRows(x)
        return self._known

    def forward(self, x: Tensor, rows: Rows) -> Tensor:
        """`rows` says which record each row is of; only a tape reads it."""
        tape = current()
        if tape is None or not self.weight.requires_grad:
            return by_weight(x, self.outputs_of(self.weight))
        return apply(_TapedFactored, as_operand(x), self.weight, self, tape, rows, widen=False)

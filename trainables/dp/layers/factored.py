"""A linear map whose output rows share parameters: W = S U with a fixed S.

As `Linear` followed by S, but S is applied to the weights instead of the rows, so that
both large products have as many columns as outputs, not as parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.dp.layers.gram import FixedRows, gram_norms
from trainables.dp.layers.packing import Rows
from trainables.dp.layers.precision import (
    as_operand,
    is_rounding,
    multiplies_bf16,
    product,
)
from trainables.dp.layers.recorder import (
    OfRows,
    Recorder,
    Views,
    apply,
    current,
    row_factors,
    scaled_pair,
)
from trainables.dp.layers.rounding import Size, upper_bound, upper_row_norms
from trainables.dp.layers.units import Units

_AT_ONCE = 4_096  # rows of a product, so that their copy stays in the processor's cache


@dataclass(eq=False)
class FactoredEntry(OfRows):
    """Rows `x` [n, I] and the gradient of the loss by the output rows, `g` [n, O], of
    which most may be 0: products read the others.
    """

    KNOWN = ("fixed",)

    layer: FactoredLinear
    x: Tensor
    g: Tensor
    rows: Rows
    fixed: FixedRows | None = None  # what is known of `x`

    def __post_init__(self) -> None:
        self._taught = (
            torch.linalg.vector_norm(self.g, dim=1).nonzero().flatten()
        )  # and NaN

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """|S^T sum g x^T|^2, as that of a `Linear` whose output gradients are the rows
        of g S.
        """
        shared = self.g.new_zeros(len(self.g), self.layer.shares.shape[1])
        shared[self._taught] = self.g[self._taught] @ self.layer.shares
        term = self.x, weights[self.layer.weight]
        found = gram_norms(units.of(self.rows), [term], shared, 0.0, fixed=self.fixed)
        return upper_bound(found.upper, self.size(units, weights))

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """|S| sum of |g| |x|, because the released gradient is S^T times a sum of rows
        g x^T.
        """
        of = units.of(self.rows)
        lengths = upper_row_norms(self.g) * (
            self.fixed or FixedRows(self.x)
        ).upper_norms(self.x)
        scale = self.layer.share_norm * math.sqrt(weights[self.layer.weight])
        total = lengths.new_zeros(of.num_units).index_add_(0, of.unit, lengths)
        return Size(total * scale, of.rows_of_unit + len(self.layer.shares))

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """Large products of the rows that are not 0, then a small one straight into the
        buffer.
        """
        scale = row_factors(units, factors, self.rows)
        total = self.g.new_zeros(self.g.shape[1], self.x.shape[1])
        for some in self._taught.split(_AT_ONCE):
            of_rows = None if scale is None else scale[some]
            g, x = scaled_pair(self.g[some], self.x[some], of_rows)
            total.addmm_(g.t(), x)
        views[self.layer.weight].addmm_(self.layer.shares.t(), total)


class KnownRows:
    """The rows of a step: as its products take them, as the tape keeps them, and what
    is known of the latter. Rows that no step changes are rounded once.
    """

    def __init__(self, x: Tensor) -> None:
        self.fixed = self._source = FixedRows(x)
        self._rounded: tuple[Tensor, Tensor] | None = None
        if is_rounding(x):
            operand = as_operand(x.detach())
            self._rounded = operand, operand.float()
            self.fixed = FixedRows(self._rounded[1])

    def are(self, x: Tensor) -> bool:
        """Whether `x` is that very tensor, unchanged, in products of the same
        precision.
        """
        return self._source.are(x) and (self._rounded is not None) == is_rounding(x)

    def pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`x` as operand of products, and in float32 with the same values."""
        return self._rounded or (x, x)


class _TapedFactored(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        layer: Any,
        known: KnownRows,
        tape: Recorder,
        rows: Rows,
    ) -> Tensor:
        own = layer.outputs_of(weight)
        operand, kept = known.pair(x.detach())
        ctx.save_for_backward(kept, own)
        ctx.layer = (layer, tape, rows, known.fixed)
        if operand.dtype == torch.bfloat16 and not multiplies_bf16(x.device.type):
            return F.linear(
                kept, own.bfloat16().float()
            ).bfloat16()  # sums are float32 in both
        return F.linear(operand, own.to(operand.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        kept, own = ctx.saved_tensors
        layer, tape, rows, fixed = ctx.layer
        tape.receive(FactoredEntry(layer, kept, g.to(own.dtype), rows, fixed))
        g_x = product(g, own).to(kept.dtype) if ctx.needs_input_grad[0] else None
        return g_x, None, None, None, None, None


class FactoredLinear(nn.Module):
    """A linear map whose weights are a product S U of a fixed, public matrix and a
    trained one: packed rows [n, in_features] to [n, outputs]. `weight` [parts,
    in_features] is U and starts at 0; `shares` float32[outputs, parts] is S. Outputs
    that share parts learn from each other's records. Without bias; gradients are
    recorded by record.
    """

    shares: Tensor

    def __init__(self, in_features: int, shares: Tensor) -> None:
        super().__init__()
        self.register_buffer(
            "shares", shares
        )  # a saved U means nothing under another S
        self.share_norm = float(torch.linalg.matrix_norm(shares.double(), 2)) * (
            1 + 1e-9
        )
        self.weight = nn.Parameter(torch.zeros(shares.shape[1], in_features))
        self._known: list[KnownRows] = []

    def outputs_of(self, weight: Tensor) -> Tensor:
        """[outputs, in_features]: S U."""
        return self.shares @ weight

    def known_of(self, x: Tensor) -> KnownRows:
        """What an earlier step found of `x`; nothing yet of another tensor than the
        last two, so that a check of a few records between two steps costs nothing of
        the whole batch's.
        """
        found = next(
            (known for known in self._known if known.are(x)), None
        ) or KnownRows(x)
        self._known = [found, *(known for known in self._known if known is not found)][
            :2
        ]
        return found

    def forward(self, x: Tensor, rows: Rows) -> Tensor:
        """`rows` says which record each row is of; only a tape reads it."""
        tape = current()
        if tape is None or not self.weight.requires_grad:
            return F.linear(x, self.outputs_of(self.weight))
        known = self.known_of(x)
        return apply(
            _TapedFactored, x, self.weight, self, known, tape, rows, widen=False
        )

"""A linear map of packed rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.dp.layers.gram import gram_norms, product_size
from trainables.dp.layers.packing import Rows
from trainables.dp.layers.precision import as_operand, product
from trainables.dp.layers.recorder import (
    OfRows,
    Recorder,
    Views,
    apply,
    column_sums,
    current,
    row_factors,
    scaled_pair,
)
from trainables.dp.layers.rounding import Size
from trainables.dp.layers.units import Units


@dataclass(eq=False)
class LinearEntry(OfRows):
    """Rows `x` [n, I] and the gradient of the loss by the output rows, `g` [n, O]."""

    weight: nn.Parameter
    bias: nn.Parameter | None
    x: Tensor
    g: Tensor
    rows: Rows

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """|sum g x^T|^2 = sum over row pairs of (x.x')(g.g'); the bias adds 1 to
        x.x'.
        """
        return gram_norms(units.of(self.rows), *self._factors(weights)).upper

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """Sum of |g| sqrt(|x|^2 + 1)."""
        return product_size(units.of(self.rows), *self._factors(weights))

    def _factors(
        self, weights: Mapping[nn.Parameter, float]
    ) -> tuple[list[tuple[Tensor, float]], Tensor, float]:
        """Terms, output gradient and the bias' weight, as `gram_norms` takes them."""
        terms = [(self.x, weights[self.weight])] if self.weight.requires_grad else []
        ones = (
            0.0
            if self.bias is None or not self.bias.requires_grad
            else weights[self.bias]
        )
        return terms, self.g, ones

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """One matrix product straight into the flat buffer."""
        scale = row_factors(units, factors, self.rows)
        if self.weight.requires_grad:
            g, x = scaled_pair(self.g, self.x, scale)
            views[self.weight].addmm_(g.t(), x)
        if self.bias is not None and self.bias.requires_grad:
            views[self.bias].add_(column_sums(self.g, scale))


class _TapedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tape: Recorder,
        rows: Rows,
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layer = (weight, bias, tape, rows)
        return F.linear(
            x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        weight, bias, tape, rows = ctx.layer
        # Norm and sum are both computed from this entry, in the weight's precision.
        kept, g_kept = x.detach().to(weight.dtype), g.to(weight.dtype)
        tape.receive(LinearEntry(weight, bias, kept, g_kept, rows))
        g_x = product(g, weight.detach()) if ctx.needs_input_grad[0] else None
        return g_x, None, None, None, None


class Linear(nn.Linear):
    """`nn.Linear` on packed rows [n, in_features], giving [n, out_features]. While a
    recorder is active and weight or bias are trained, the backward pass records
    activations and output gradients by record in place of the weight's gradient. Under
    bfloat16 the rounded operands are what is recorded, so norms are those of the
    gradient that is released.
    """

    def forward(self, x: Tensor, rows: Rows) -> Tensor:  # type: ignore[override]  # rows are new
        """`rows` says which record each row is of; only a tape reads it."""
        tape = current()
        if tape is None or not any(p.requires_grad for p in self.parameters()):
            return F.linear(x, self.weight, self.bias)
        return apply(
            _TapedLinear, as_operand(x), self.weight, self.bias, tape, rows, widen=False
        )

"""Layer normalisation of packed rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.dp.layers.packing import Rows
from trainables.dp.layers.recorder import OfRows, Recorder, Views, apply, current
from trainables.dp.layers.rounding import Size, row_norms, sum_of_norms, sums_of
from trainables.dp.layers.units import Units


@dataclass(eq=False)
class LayerNormEntry(OfRows):
    """Normalised rows `x` [n, D] and the gradient of the loss by the output rows, `g`
    [n, D].
    """

    KNOWN = ("_sums",)

    weight: nn.Parameter
    bias: nn.Parameter
    x: Tensor
    g: Tensor
    rows: Rows
    _sums: tuple[Units, dict[nn.Parameter, Tensor]] | None = None

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """Vectors: the per-unit gradients themselves, [U, D], are small.

        They are kept and reused for the released sum, so no further rounding occurs.
        """
        total = self.g.new_zeros(units.num_units, dtype=torch.float64)
        for parameter, sums in self._by_unit(units).items():
            total += row_norms(sums).square_().mul_(weights[parameter])
        return total

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """Sum of |g| and of |g * x|, the two orthogonal."""
        rows = units.of(self.rows)
        squares = torch.zeros(
            units.num_units, dtype=torch.float64, device=self.g.device
        )
        for parameter, values in self._values():
            own = sum_of_norms(values, rows.unit, units.num_units)
            squares += own.square_().mul_(weights[parameter])
        return Size(squares.sqrt_(), rows.rows_of_unit)

    def _by_unit(self, units: Units) -> dict[nn.Parameter, Tensor]:
        """[U, D] of each parameter; kept, because the sum over units needs it next."""
        if self._sums is None or self._sums[0] is not units:
            unit = units.of(self.rows).unit
            found = {}
            for parameter, values in self._values():
                found[parameter] = sums_of(values, unit, units.num_units)
            self._sums = (units, found)
        return self._sums[1]

    def _values(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """[n, D] of each parameter."""
        if self.weight.requires_grad:
            yield self.weight, self.g * self.x
        if self.bias.requires_grad:
            yield self.bias, self.g

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """Column sums."""
        if units is None or factors is None:
            for parameter, values in self._values():
                views[parameter].add_(values.sum(0))
        else:
            for parameter, sums in self._by_unit(units).items():
                views[parameter].add_(factors @ sums)


class _TapedLayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        tape: Recorder,
        rows: Rows,
    ) -> Tensor:
        out, mean, rstd = torch.native_layer_norm(x, [x.shape[1]], weight, bias, eps)
        ctx.save_for_backward(x, mean, rstd)
        ctx.layer = (weight, bias, tape, rows)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, rstd = ctx.saved_tensors
        weight, bias, tape, rows = ctx.layer
        g_x, _, _ = torch.ops.aten.native_layer_norm_backward(
            g,
            x,
            [x.shape[1]],
            mean,
            rstd,
            weight.detach(),
            bias.detach(),
            [True, False, False],
        )
        tape.receive(
            LayerNormEntry(weight, bias, (x.detach() - mean).mul_(rstd), g, rows)
        )
        return g_x, None, None, None, None, None


class LayerNorm(nn.LayerNorm):
    """`nn.LayerNorm` over the last dimension of packed rows [n, D]. Statistics are
    those of a row alone, so records do not mix. While a recorder is active and scale or
    shift are trained, the backward pass records normalised rows and output gradients by
    record in place of the two gradients.
    """

    def forward(self, x: Tensor, rows: Rows) -> Tensor:  # type: ignore[override]  # rows are new
        """`rows` says which record each row is of; only a tape reads it."""
        tape = current()
        if tape is None or not (self.weight.requires_grad or self.bias.requires_grad):
            return F.layer_norm(
                x, self.normalized_shape, self.weight, self.bias, self.eps
            )
        return apply(_TapedLayerNorm, x, self.weight, self.bias, self.eps, tape, rows)

"""A table of vectors, looked up by packed ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.dp.layers.packing import Rows
from trainables.dp.layers.recorder import (
    OfRows,
    Recorder,
    Views,
    apply,
    current,
    row_factors,
)
from trainables.dp.layers.rounding import Size, row_norms, upper_bound
from trainables.dp.layers.units import Units


@dataclass(eq=False)
class EmbeddingEntry(OfRows):
    """Looked-up `ids` [n] and the gradient of the loss by the vectors, `g` [n, D]."""

    weight: nn.Parameter
    ids: Tensor
    g: Tensor
    rows: Rows

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """Sum the rows of equal (unit, id) first; then plain squares: no n x n Gram is
        needed.
        """
        squares, size = self._sums(units)
        return upper_bound(squares, size).mul_(weights[self.weight])

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """The rows of one id add up, those of different ids are orthogonal."""
        size = self._sums(units)[1]
        return Size(size.total * weights[self.weight] ** 0.5, size.terms)

    def _sums(self, units: Units) -> tuple[Tensor, Size]:
        """float64[U]: squared norms of the units' gradients, and their sizes."""
        rows = units.of(self.rows)
        unit = rows.unit
        # Not `unique`: how many there are would have to be read from the device.
        pairs, order = (unit * self.weight.shape[0] + self.ids).sort()
        place = torch.zeros_like(pairs)
        torch.cumsum(pairs[1:] != pairs[:-1], 0, out=place[1:])
        sums = torch.zeros_like(self.g).index_add_(
            0, place, self.g.index_select(0, order)
        )
        owner = torch.zeros_like(unit).index_copy_(
            0, place, unit.index_select(0, order)
        )
        norms = row_norms(self.g).index_select(0, order)
        sizes = torch.zeros_like(norms).index_add_(0, place, norms).square_()
        squares, sizes = (
            sizes.new_zeros(units.num_units).index_add_(0, owner, values)
            for values in (row_norms(sums).square_(), sizes)
        )
        return squares, Size(sizes.sqrt_(), rows.rows_of_unit)

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """Only the rows that occur are touched."""
        scale = row_factors(units, factors, self.rows)
        g = self.g if scale is None else self.g * scale.unsqueeze(1)
        views[self.weight].index_add_(0, self.ids, g)


class _TapedEmbedding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, ids: Tensor, tape: Recorder, rows: Rows
    ) -> Tensor:
        ctx.layer = (weight, ids, tape, rows)
        return F.embedding(ids, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[None, None, None, None]:
        weight, ids, tape, rows = ctx.layer
        tape.receive(EmbeddingEntry(weight, ids, g, rows))
        return None, None, None, None


class Embedding(nn.Embedding):
    """`nn.Embedding` on packed ids int64[n], giving rows [n, embedding_dim]; there is
    no padding index. While a recorder is active and the table is trained, the backward
    pass records the ids and output gradients by record in place of the table's
    gradient, so that clipping by record never forms a table for each record.
    """

    def forward(self, ids: Tensor, rows: Rows) -> Tensor:  # type: ignore[override]  # rows are new
        """`rows` says which record each id is of; only a tape reads it."""
        tape = current()
        if tape is None or not self.weight.requires_grad:
            return F.embedding(ids, self.weight)
        return apply(_TapedEmbedding, self.weight, ids, tape, rows)

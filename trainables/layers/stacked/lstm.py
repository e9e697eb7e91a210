"""Several biLSTM layers at once: 2K directions advance together, one batched product a time step.

Each member and direction has a lane of the layout's grid. A cell of padding reads zeros and gets no
gradient, so nothing flows from it into a record.

A CPU reads a direction's recurrent weights from its cache in every time step. Where those of all
members together do not fit there, it takes the members one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.errors import InvalidInput
from trainables.layers.lstm import BiLstm, LstmEntry, advance, retreat
from trainables.layers.packing import TimeMajor
from trainables.layers.stacked.blocks import (
    Blocks,
    anchor,
    in_batches,
    lanes_product,
    views_of,
    weights_of,
)
from trainables.layers.stacked_packing import StackedTimeMajor
from trainables.layers.tape import Tape, Units, Views, apply, current, row_factors, scaled_pair

_IN_CACHE = 1 << 20  # bytes of recurrent weights


@dataclass(eq=False, kw_only=True)
class StackedLstmEntry(LstmEntry):
    """Rows of all `layers`, of both directions in forward order; `layer` is the first one."""

    layers: Sequence[BiLstm]
    blocks: Blocks

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """Three products a member and direction."""
        scale = row_factors(units, factors, self.layout.rows)
        for direction in (0, 1):
            for name, a in (("weight_ih", self.x), ("weight_hh", self.h)):
                if self.layer.get_parameter(name).requires_grad:
                    own = [view[direction] for view in views_of(self.layers, name, views)]
                    self.blocks.add_outer(
                        own, *scaled_pair(self.dz[direction], a[direction], scale)
                    )
            if self.layer.bias.requires_grad:
                own = [view[direction] for view in views_of(self.layers, "bias", views)]
                self.blocks.add_columns(own, self.dz[direction], scale)


def _lanes(parts: tuple[Tensor, Tensor], layout: StackedTimeMajor, num_members: int) -> Tensor:
    """Rows [T, D] of both directions -> [2K, cells, D], zeros in the padding."""
    num_lanes, width = 2 * num_members, parts[0].shape[1]
    grid = parts[0].new_zeros(num_lanes * layout.num_cells, width)
    for cells, rows in zip(layout.cells, parts, strict=True):
        grid.index_copy_(0, cells, rows)
    return grid.view(num_lanes, layout.num_cells, width)


def _rows(lanes: Tensor, layout: StackedTimeMajor) -> tuple[Tensor, Tensor]:
    """The way back, in forward order for both directions."""
    flat = lanes.flatten(0, 1)
    forwards, backwards = layout.cells
    return flat.index_select(0, forwards), flat.index_select(0, backwards)


class _StackedBiLstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, _: Tensor, layer: StackedBiLstm, layout: StackedTimeMajor, tape: Tape
    ) -> Tensor:
        layers = layer.layers
        w_ih, bias = (
            [lane for both in weights_of(layers, name) for lane in both]
            for name in ("weight_ih", "bias")
        )
        w_hh = torch.cat(weights_of(layers, "weight_hh"))
        inputs = _lanes((x, x), layout, len(layers))
        kept = advance(lanes_product(inputs, w_ih, bias), w_hh, layout.grid)
        ctx.save_for_backward(x, w_hh, *kept)
        ctx.layer = (layers, w_ih, layout, tape)
        return torch.cat(_rows(kept[-1], layout), dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, w_hh, gates, cells, tanh_cells, states = ctx.saved_tensors
        layers, w_ih, layout, tape = ctx.layer
        width = w_hh.shape[2]
        dh = _lanes((g[:, :width], g[:, width:]), layout, len(layers))
        dz = retreat(dh, gates, cells, tanh_cells, w_hh, layout.grid)
        g_x = None
        if ctx.needs_input_grad[0]:
            forwards, backwards = _rows(lanes_product(dz, [w.t() for w in w_ih]), layout)
            g_x = forwards.add_(backwards)
        # The state that a row started from: of the row before in its direction of reading.
        forwards, backwards = _rows(states, layout)
        h = torch.zeros(2, *forwards.shape, dtype=x.dtype, device=x.device)
        h[0].index_copy_(0, layout.later, forwards.index_select(0, layout.previous))
        h[1].index_copy_(0, layout.previous, backwards.index_select(0, layout.later))
        tape.receive(
            StackedLstmEntry(
                layers[0],
                (x.detach(), x.detach()),
                h,
                torch.stack(_rows(dz, layout)),
                layout,
                layers=layers,
                blocks=Blocks.of(layout.rows, x.device),
            )
        )
        return g_x, None, None, None, None


class StackedBiLstm(nn.Module):
    """`BiLstm` of several models."""

    def __init__(self, layers: Sequence[BiLstm]) -> None:
        super().__init__()
        self.layers = tuple(layers)

    def forward(self, x: Tensor, layout: TimeMajor) -> Tensor:
        """Packed rows [T, input_size] -> [T, 2 * hidden_size], in the order of `layout`."""
        if not isinstance(layout, StackedTimeMajor):
            raise InvalidInput("expected the layout of a stack in a stacked layer, got a plain one")
        if in_batches(x.device) or self._num_bytes <= _IN_CACHE:
            return apply(_StackedBiLstm, x, anchor(self.layers), self, layout, current())
        parts = torch.split(x, [own.rows.record.size for own in layout.own])
        steps = zip(self.layers, parts, layout.own, strict=True)
        return torch.cat([layer(part, own) for layer, part, own in steps])

    @property
    def _num_bytes(self) -> int:
        first = self.layers[0].weight_hh
        return len(self.layers) * first.numel() * first.element_size()

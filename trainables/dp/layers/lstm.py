"""A bidirectional LSTM layer over token-packed rows, with an explicit backward pass.

Both directions advance together, one batched product of two a time step, over the
records that still have a token (time-major rows). The backward direction reads each
record from its end, so both have the same active rows. The backward pass keeps the
gradient `dz` of the gates. Input, recurrent and bias weights of a direction share it,
so their per-unit norms need one Gram of `dz` (Bu et al. 2023 for book-keeping in
general).

Equations: Hochreiter and Schmidhuber 1997 with forget gates (Gers et al. 2000), as in
`nn.LSTM`; gates in the order input, forget, output, cell; one bias (the two of
`nn.LSTM` only ever add up).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.dp.layers.gram import gram_norms, product_size
from trainables.dp.layers.packing import TimeMajor
from trainables.dp.layers.precision import as_operand, product
from trainables.dp.layers.recorder import (
    Recorder,
    Views,
    apply,
    clear_units,
    column_sums,
    current,
    gradients,
    is_plain,
    row_factors,
    scaled_pair,
)
from trainables.dp.layers.rounding import Size
from trainables.dp.layers.units import Units


def advance(
    gates: Tensor, w_hh: Tensor, layout: TimeMajor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The recurrence of M directions from `gates` [M, T, 4H] of the inputs alone and
    `w_hh` [M, 4H, H]. Returns gates after their non-linearity (in place), cells, tanh
    of cells, states.
    """
    width = w_hh.shape[2]
    cells, tanh_cells, states = (
        gates.new_empty(*gates.shape[:2], width) for _ in range(3)
    )
    recurrent = w_hh.transpose(1, 2)
    earlier = 0
    for size, start in zip(layout.sizes, layout.starts, strict=True):
        rows, before = slice(start, start + size), slice(earlier, earlier + size)
        z, c, tanh_c = gates[:, rows], cells[:, rows], tanh_cells[:, rows]
        if start:
            z.baddbmm_(states[:, before], recurrent)
        z[..., : 3 * width].sigmoid_()
        z[..., 3 * width :].tanh_()
        i, f, o, g = torch.split(z, width, 2)
        torch.mul(i, g, out=c)
        if start:
            c.addcmul_(f, cells[:, before])
        torch.tanh(c, out=tanh_c)
        torch.mul(o, tanh_c, out=states[:, rows])
        earlier = start
    return gates, cells, tanh_cells, states


def retreat(
    dh: Tensor,
    gates: Tensor,
    cells: Tensor,
    tanh_cells: Tensor,
    w_hh: Tensor,
    layout: TimeMajor,
) -> Tensor:
    """Gradient of the gates before their non-linearity, [M, T, 4H], from the results of
    `advance` and the gradient `dh` [M, T, H] of the states, which is overwritten.
    """
    width = w_hh.shape[2]
    i, f, o, g = torch.split(gates, width, 2)
    dz = torch.empty_like(gates)
    d_i, d_f, d_o, d_g = torch.split(dz, width, 2)
    # Everything that does not depend on the recurrence, for all steps at once.
    to_cell = torch.addcmul(o, o, tanh_cells.square(), value=-1)  # d state / d cell
    torch.mul(tanh_cells, torch.addcmul(o, o, o, value=-1), out=d_o)
    torch.mul(g, torch.addcmul(i, i, i, value=-1), out=d_i)
    torch.addcmul(i, i, g.square(), value=-1, out=d_g)
    torch.addcmul(f, f, f, value=-1, out=d_f)
    later = layout.num_records
    if layout.previous.numel():
        d_f[:, later:].mul_(cells.index_select(1, layout.previous))
    d_f[:, :later].zero_()
    dc = torch.empty_like(to_cell)
    following = 0
    for time in range(len(layout.sizes) - 1, -1, -1):
        size, start = layout.sizes[time], layout.starts[time]
        rows = slice(start, start + size)
        h, c = dh[:, rows], dc[:, rows]
        torch.mul(h, to_cell[:, rows], out=c)
        if following:
            after = slice(start + size, start + size + following)
            c[:, :following].addcmul_(dc[:, after], f[:, after])
        d_o[:, rows].mul_(h)
        d_i[:, rows].mul_(c)
        d_f[:, rows].mul_(c)
        d_g[:, rows].mul_(c)
        if time:
            before = slice(layout.starts[time - 1], layout.starts[time - 1] + size)
            dh[:, before].baddbmm_(dz[:, rows], w_hh)
        following = size
    return dz


@dataclass(eq=False)
class LstmEntry:
    """Inputs `x` [2][T, I], earlier states `h` [2, T, H] and gate gradients `dz` [2, T,
    4H].

    Direction 1 has its rows in reversed time; within a direction all three agree.
    """

    layer: BiLstm
    x: tuple[Tensor, Tensor]
    h: Tensor
    dz: Tensor
    layout: TimeMajor

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """Input and recurrent weights and bias."""
        return self.layer.weight_ih, self.layer.weight_hh, self.layer.bias

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """Sum over row pairs of (x.x' w_ih + h.h' w_hh + w_b)(dz.dz'), over both
        directions.
        """
        rows = units.of(self.layout.rows)
        near, far = (
            gram_norms(rows, *self._factors(weights, way)).upper for way in (0, 1)
        )
        return near + far

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """Sum of |dz| sqrt(|x|^2 + |h|^2 + 1), over both directions."""
        rows = units.of(self.layout.rows)
        near, far = (product_size(rows, *self._factors(weights, way)) for way in (0, 1))
        return Size(near.total + far.total, near.terms)

    def _factors(
        self, weights: Mapping[nn.Parameter, float], direction: int
    ) -> tuple[list[tuple[Tensor, float]], Tensor, float]:
        """Terms, gate gradient and the bias' weight of a direction, as `gram_norms`
        takes them.
        """
        layer = self.layer
        terms = [
            (a[direction], weights[w])
            for a, w in ((self.x, layer.weight_ih), (self.h, layer.weight_hh))
        ]
        return terms, self.dz[direction], weights[layer.bias]

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """Three products a direction."""
        scale = row_factors(units, factors, self.layout.rows)
        layer = self.layer
        later = self.layout.num_records  # the first rows have no earlier state
        for direction in (0, 1):
            dz, x = scaled_pair(self.dz[direction], self.x[direction], scale)
            views[layer.weight_ih][direction].addmm_(dz.t(), x)
            dz, h = scaled_pair(self.dz[direction], self.h[direction], scale)
            views[layer.weight_hh][direction].addmm_(dz[later:].t(), h[later:])
            views[layer.bias][direction].add_(column_sums(self.dz[direction], scale))

    def without(self, units: Units, dropped: Tensor) -> LstmEntry:
        """Rows of the dropped units set to 0."""
        rows = self.layout.rows
        x, y = (clear_units(values, units, dropped, rows) for values in self.x)
        h, dz = (
            torch.stack([clear_units(values, units, dropped, rows) for values in both])
            for both in (self.h, self.dz)
        )
        return replace(self, x=(x, y), h=h, dz=dz)


def _forward(
    x: tuple[Tensor, Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    bias: Tensor,
    layout: TimeMajor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gates after their non-linearity, cells, tanh of cells, states; each [2, T, .]."""
    gates = bias.new_empty(2, x[0].shape[0], w_ih.shape[1])
    for direction in (0, 1):
        own, weight, out = x[direction], w_ih[direction].t(), gates[direction]
        if own.dtype == out.dtype:
            torch.addmm(bias[direction], own, weight, out=out)
        else:
            torch.add(bias[direction], product(own, weight), out=out)
    return advance(gates, w_hh, layout)


class _BiLstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        layer: BiLstm,
        layout: TimeMajor,
        tape: Recorder | None,
        *parameters: nn.Parameter,
    ) -> Tensor:
        w_ih, w_hh, bias = parameters
        both = (x, x.index_select(0, layout.reverse))
        gates, cells, tanh_cells, states = _forward(both, w_ih, w_hh, bias, layout)
        ctx.save_for_backward(x, both[1], w_ih, w_hh, gates, cells, tanh_cells, states)
        ctx.layer = (layer, layout, tape, parameters)
        return torch.cat([states[0], states[1].index_select(0, layout.reverse)], dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, x_reversed, w_ih, w_hh, gates, cells, tanh_cells, states = ctx.saved_tensors
        layer, layout, tape, parameters = ctx.layer
        width = w_hh.shape[2]
        dh = torch.stack([g[:, :width], g[:, width:].index_select(0, layout.reverse)])
        dz = retreat(dh, gates, cells, tanh_cells, w_hh, layout)
        g_x = None
        if ctx.needs_input_grad[0]:
            near, far = dz.to(x.dtype)
            g_x = product(far, w_ih[1]).index_select(0, layout.reverse)
            g_x.addmm_(near, w_ih[0].to(x.dtype))
        h = torch.zeros_like(states)
        h[:, layout.num_records :] = states.index_select(1, layout.previous)
        inputs = (x.detach().to(dz.dtype), x_reversed.to(dz.dtype))
        views = gradients(LstmEntry(layer, inputs, h, dz, layout), tape)
        return g_x, None, None, None, *map(views.get, parameters)


def _by_torch(
    w_ih: Tensor, w_hh: Tensor, bias: Tensor, x: Tensor, layout: TimeMajor
) -> Tensor:
    """The same by torch, whose gates come in the order input, forget, cell, output."""
    weights = []
    for direction in (0, 1):
        for values in (w_ih[direction], w_hh[direction], bias[direction]):
            i, f, o, g = values.chunk(4)
            weights.append(torch.cat([i, f, g, o]))
        weights.append(torch.zeros_like(bias[direction]))
    state = x.new_zeros(2, layout.num_records, w_hh.shape[2])
    sizes = torch.tensor(layout.sizes)
    with torch.backends.cudnn.flags(
        enabled=False
    ):  # which wants all weights in one piece
        # Packed rows: with biases, one layer, no dropout, training, both directions.
        return torch.lstm(x, sizes, (state, state), weights, True, 1, 0.0, True, True)[
            0
        ]


class BiLstm(nn.Module):
    """Both directions of one LSTM layer (Hochreiter and Schmidhuber 1997) without
    padding: packed rows [T, input_size] to [T, 2 * hidden_size], the forward direction
    first. Parameters, by direction: `weight_ih` [2, 4H, I], `weight_hh` [2, 4H, H],
    `bias` [2, 4H], where forget gates start at 1. Gradients are recorded by record.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(2, 4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(2, 4 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(2, 4 * hidden_size))
        bound = 1 / math.sqrt(hidden_size)
        for weight in (self.weight_ih, self.weight_hh):
            nn.init.uniform_(weight, -bound, bound)
        with torch.no_grad():  # remember at first (Jozefowicz et al. 2015)
            self.bias[:, hidden_size : 2 * hidden_size] = 1.0

    def forward(self, x: Tensor, layout: TimeMajor) -> Tensor:
        """Rows of `x` and of the result are in the time-major order of `layout`."""
        maps = self.weight_ih, self.weight_hh, self.bias
        if is_plain():
            return _by_torch(*maps, x, layout)
        return apply(
            _BiLstm, as_operand(x), self, layout, current(), *maps, widen=False
        )

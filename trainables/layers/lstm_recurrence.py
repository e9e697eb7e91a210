"""The recurrence of an LSTM over time-major rows, forwards and backwards through time.

M directions advance together; gates come in the order input, forget, output, cell.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.layers.packing import TimeMajor


def advance(
    gates: Tensor, w_hh: Tensor, layout: TimeMajor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The recurrence of M directions from `gates` [M, T, 4H] of the inputs alone and `w_hh`
    [M, 4H, H]. Returns gates after their non-linearity (in place), cells, tanh of cells, states.
    """
    width = w_hh.shape[2]
    cells, tanh_cells, states = (gates.new_empty(*gates.shape[:2], width) for _ in range(3))
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
    dh: Tensor, gates: Tensor, cells: Tensor, tanh_cells: Tensor, w_hh: Tensor, layout: TimeMajor
) -> Tensor:
    """Gradient of the gates before their non-linearity, [M, T, 4H], from the results of `advance`
    and the gradient `dh` [M, T, H] of the states, which is overwritten.
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

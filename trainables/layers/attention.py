"""Self-attention of packed rows (Vaswani et al. 2017); no parameters, so nothing for the tape.

`attention` takes records in groups of equal length, so no score is computed for padding and no mask
is needed. `causal_attention` (Radford et al. 2019) pads records for the attention alone; a row
attends to earlier rows only, so never to padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from trainables.layers.dropout import Masks
from trainables.layers.packing import ByLength, Rows
from trainables.layers.tape import apply


def _heads(rows: Tensor, number: int, size: int, heads: int, parts: int) -> Tensor:
    """[number * size, parts * heads * d] -> [parts, number * heads, size, d]."""
    split = rows.view(number, size, parts, heads, -1).permute(2, 0, 3, 1, 4)
    return split.reshape(parts, number * heads, size, -1)


def _rows(values: Tensor, number: int, heads: int, out: Tensor) -> None:
    """The inverse of `_heads`, into `out` [number * size, parts * heads * d]."""
    parts, _, size, depth = values.shape
    split = values.view(parts, number, heads, size, depth).permute(1, 3, 0, 2, 4)
    out.view(number, size, parts, heads, depth).copy_(split)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, layout: ByLength, heads: int, masks: Masks | None, site: int
    ) -> Tensor:
        width = qkv.shape[1] // 3
        out = qkv.new_empty(qkv.shape[0], width)
        scale = 1 / math.sqrt(width // heads)
        longest = max(size for _, _, size in layout.groups)
        masks_of_rows = None if masks is None else masks.attention(longest, heads, site)
        kept = []
        for first, number, size in layout.groups:
            taken = slice(first, first + number * size)
            q, k, v = _heads(qkv[taken], number, size, heads, 3)
            weights = torch.bmm(q, k.transpose(1, 2)).mul_(scale).softmax(2)
            dropped, mask = weights, None
            if masks_of_rows is not None:
                own = masks_of_rows[taken, :, :size].view(number, size, heads, size)
                mask = own.transpose(1, 2).reshape(number * heads, size, size)
                dropped = weights * mask
            _rows(torch.bmm(dropped, v).unsqueeze(0), number, heads, out[taken])
            kept.append((q, k, v, weights, mask))
        ctx.kept = (kept, layout, heads, scale)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        kept, layout, heads, scale = ctx.kept
        g_qkv = g.new_empty(g.shape[0], 3 * g.shape[1])
        g = g.contiguous()
        for (first, number, size), (q, k, v, weights, mask) in zip(
            layout.groups, kept, strict=True
        ):
            taken = slice(first, first + number * size)
            g_out = _heads(g[taken], number, size, heads, 1)[0]
            g_own = torch.empty(3, *q.shape, dtype=q.dtype, device=q.device)
            dropped = weights if mask is None else weights * mask
            torch.bmm(dropped.transpose(1, 2), g_out, out=g_own[2])
            g_weights = torch.bmm(g_out, v.transpose(1, 2))
            if mask is not None:
                g_weights *= mask
            g_weights *= weights
            g_scores = g_weights.addcmul_(weights, g_weights.sum(2, keepdim=True), value=-1)
            g_scores *= scale
            torch.bmm(g_scores, k, out=g_own[0])
            torch.bmm(g_scores.transpose(1, 2), q, out=g_own[1])
            _rows(g_own, number, heads, g_qkv[taken])
        return g_qkv, None, None, None, None


def attention(
    qkv: Tensor, layout: ByLength, *, heads: int, masks: Masks | None = None, site: int = 0
) -> Tensor:
    """Rows [n, 3 * width] of queries, keys and values -> [n, width], within each record.

    `masks`: dropout on the attention weights, at the place `site` of the model.
    """
    if masks is not None and masks.dropped == 0:
        masks = None
    return apply(_Attention, qkv, layout, heads, masks, site)


@dataclass(frozen=True, eq=False)
class Packed:
    """Packed rows of B records in the batch's order, and their cells in [B, longest]."""

    rows: Rows
    record: Tensor  # int64[n]
    position: Tensor  # int64[n], place of the row within its record
    cell: Tensor  # int64[n], record * longest + position
    longest: int


def causal_layout(lengths: Tensor) -> Packed:
    """The layout of records of these `lengths` (int64[B], each >= 1).

    >>> causal_layout(torch.tensor([1, 3])).cell.tolist()
    [0, 3, 4, 5]
    """
    sizes = lengths.detach().cpu().numpy().astype(np.int64)
    longest = int(sizes.max())
    record = np.repeat(np.arange(sizes.size), sizes)
    position = np.arange(record.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(lengths.device)

    return Packed(
        rows=Rows(record, sizes.size),
        record=tensor(record),
        position=tensor(position),
        cell=tensor(record * longest + position),
        longest=longest,
    )


def causal_attention(qkv: Tensor, layout: Packed, *, heads: int) -> Tensor:
    """Rows [n, 3 * width] of queries, keys and values -> [n, width].

    A row attends to the rows of its record up to itself.
    """
    number, longest = layout.rows.num_records, layout.longest
    width = qkv.shape[1] // 3
    cells = qkv.new_zeros(number * longest, qkv.shape[1]).index_copy(0, layout.cell, qkv)
    split = cells.view(number, longest, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    q, k, v = split.unbind(0)
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return seen.transpose(1, 2).reshape(-1, width).index_select(0, layout.cell)

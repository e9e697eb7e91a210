"""Self-attention of packed rows (Vaswani et al. 2017); no parameters, so nothing for the tape.

Records are taken in groups of equal length, so no score is computed for padding. In causal
attention (Radford et al. 2019) a row attends to the rows of its record up to itself.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trainables.layers.dropout import Masks
from trainables.layers.packing import ByLength
from trainables.layers.tape import apply, is_plain


def _heads(rows: Tensor, number: int, size: int, heads: int, parts: int) -> Tensor:
    """[number * size, parts * heads * d] -> [parts, number * heads, size, d]."""
    split = rows.view(number, size, parts, heads, -1).permute(2, 0, 3, 1, 4)
    return split.reshape(parts, number * heads, size, -1)


def _rows(values: Tensor, number: int, heads: int, out: Tensor) -> None:
    """The inverse of `_heads`, into `out` [number * size, parts * heads * d]."""
    parts, _, size, depth = values.shape
    split = values.view(parts, number, heads, size, depth).permute(1, 3, 0, 2, 4)
    out.view(number, size, parts, heads, depth).copy_(split)


def _attend(
    qkv: Tensor, layout: ByLength, heads: int, causal: bool, masks: Masks | None, site: int
) -> tuple[Tensor, list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]]]:
    """The result, and (q, k, v, weights, mask) of each group."""
    width = qkv.shape[1] // 3
    out = qkv.new_empty(qkv.shape[0], width)
    scale = _scale(width, heads)
    longest = max(size for _, _, size in layout.groups)
    masks_of_rows = None if masks is None else masks.attention(longest, heads, site)
    later = qkv.new_full((longest, longest), -math.inf).triu_(1) if causal else None
    kept = []
    for first, number, size in layout.groups:
        taken = slice(first, first + number * size)
        q, k, v = _heads(qkv[taken], number, size, heads, 3)
        if later is None:
            scores = torch.bmm(q, k.transpose(1, 2)).mul_(scale)
        else:
            scores = torch.baddbmm(later[:size, :size], q, k.transpose(1, 2), alpha=scale)
        weights = scores.softmax(2)
        dropped, mask = weights, None
        if masks_of_rows is not None:
            own = masks_of_rows[taken, :, :size].view(number, size, heads, size)
            mask = own.transpose(1, 2).reshape(number * heads, size, size)
            dropped = weights * mask
        _rows(torch.bmm(dropped, v).unsqueeze(0), number, heads, out[taken])
        kept.append((q, k, v, weights, mask))
    return out, kept


def _scale(width: int, heads: int) -> float:
    return 1 / math.sqrt(width // heads)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, layout: ByLength, heads: int, *how: Any) -> Tensor:
        out, kept = _attend(qkv, layout, heads, *how)
        ctx.kept = (kept, layout, heads, _scale(out.shape[1], heads))
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
        return g_qkv, None, None, None, None, None


def attention(
    qkv: Tensor,
    layout: ByLength,
    *,
    heads: int,
    causal: bool = False,
    masks: Masks | None = None,
    site: int = 0,
) -> Tensor:
    """Rows [n, 3 * width] of queries, keys and values -> [n, width], within each record.

    `causal`: a row attends to the rows of its record up to itself. `masks`: dropout on the
    attention weights, at the place `site` of the model.
    """
    if masks is not None and masks.dropped == 0:
        masks = None
    if is_plain():
        return _attend(qkv, layout, heads, causal, masks, site)[0]
    return apply(_Attention, qkv, layout, heads, causal, masks, site)

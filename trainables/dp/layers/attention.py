"""Self-attention of packed rows (Vaswani et al. 2017); no parameters, so nothing for
the recorder.

Records are taken in groups of equal length, so no score is computed for padding.
"""

import math

import torch
from torch import Tensor

from trainables.dp.layers.dropout import Masks
from trainables.dp.layers.packing import ByLength


def attention(
    qkv: Tensor,
    layout: ByLength,
    *,
    heads: int,
    causal: bool = False,
    masks: Masks | None = None,
    site: int = 0,
) -> Tensor:
    """Rows [n, 3 * width] of queries, keys and values -> [n, width], within each
    record, in float32 where products are rounded.

    `causal`: a row attends to the rows of its record up to itself (Radford et al.
    2019). `masks`: dropout on the attention weights, at the place `site` of the model.
    """
    if qkv.dtype == torch.bfloat16:
        qkv = qkv.float()
    depth = qkv.shape[1] // (3 * heads)
    longest = layout.groups[0][2]
    factors = None if masks is None else masks.attention(longest, heads, site)
    later = qkv.new_full((longest, longest), -math.inf).triu_(1) if causal else None
    found = []
    with torch.autocast(qkv.device.type, enabled=False):
        parts = torch.split(qkv, [number * size for _, number, size in layout.groups])
        for (first, number, size), part in zip(layout.groups, parts, strict=True):
            q, k, v = part.view(number, size, 3, heads, depth).permute(2, 0, 3, 1, 4)
            scores = (q / math.sqrt(depth)) @ k.transpose(2, 3)
            if later is not None:
                scores = scores + later[:size, :size]
            weights = scores.softmax(3)
            if factors is not None:
                own = factors[first : first + len(part), :, :size].view(
                    number, size, heads, size
                )
                weights = weights * own.transpose(1, 2)
            found.append((weights @ v).transpose(1, 2).reshape(len(part), -1))
    return torch.cat(found)

"""Causal self-attention of packed rows (Radford et al. 2019), without parameters: no tape.

Records are laid side by side for the attention alone: a row behind the end of a record is never
looked at by a row of it, because a row sees only what stands before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.layers.packing import Rows


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

    A row sees the rows of its own record up to itself.
    """
    number, longest = layout.rows.num_records, layout.longest
    width = qkv.shape[1] // 3
    cells = qkv.new_zeros(number * longest, qkv.shape[1]).index_copy(0, layout.cell, qkv)
    split = cells.view(number, longest, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    q, k, v = split.unbind(0)
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return seen.transpose(1, 2).reshape(-1, width).index_select(0, layout.cell)

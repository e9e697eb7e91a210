"""An embedding table whose transpose is also the output map of a model.

Its gradient by one unit is sum_t e_t g_t^T (rows looked up) + sum_s h_s x_s^T (output rows), with
e_t the indicator of the id at t. The squared norm is that of both parts plus twice their inner
product, sum over s, t of h_s[id_t] (x_s . g_t): two small Grams, no unit's gradient is formed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from trainables.layers.embedding import EmbeddingEntry
from trainables.layers.linear import LinearEntry
from trainables.layers.rounding import FLOAT32, Size, joint_size, upper_bound
from trainables.layers.tape import Entry, Views
from trainables.layers.units import Units

_CELLS = 4_000_000  # numbers of a Gram held at once


@dataclass(eq=False)
class TiedTableEntry:
    """One look-up and one linear map that share their weight."""

    lookup: EmbeddingEntry
    head: LinearEntry

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """The table, and the map's bias where there is one."""
        return self.head.parameters

    def squared_norms(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Tensor:
        """Both parts' squares and twice their inner product, with the rounding bound of each."""
        own = self.lookup.squared_norms(units, weights) + self.head.squared_norms(units, weights)
        crossed = self._inner_products(units).mul_(2 * weights[self.head.weight])
        # The Grams of the two parts are as wide as the table; their sum has a root of its depth.
        relative = FLOAT32 * (self.head.x.shape[1] + 64)
        return upper_bound(own + crossed, self.size(units, weights), relative=relative)

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """The sizes of the two add up."""
        return joint_size([self.lookup.size(units, weights), self.head.size(units, weights)])

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """One use after the other."""
        self.head.add_gradient(units, factors, views)
        self.lookup.add_gradient(units, factors, views)

    def without(self, units: Units, dropped: Tensor) -> TiedTableEntry:
        """Rows of the dropped units set to 0 in both."""
        return TiedTableEntry(
            self.lookup.without(units, dropped), self.head.without(units, dropped)
        )

    def _inner_products(self, units: Units) -> Tensor:
        """[U]: inner product of the two parts of each unit's gradient."""
        below, above = self.lookup, self.head
        lower, lower_is_row = _places(units.of_record[below.rows.record], units)
        upper, upper_is_row = _places(units.of_record[above.rows.record], units)
        out = above.g.new_zeros(units.num_units, dtype=torch.float64)
        step = max(1, _CELLS // max(1, lower.shape[1] * upper.shape[1]))
        for first in range(0, units.num_units, step):
            part = slice(first, first + step)
            low, high = lower[part], upper[part]
            dots = torch.bmm(above.x[high], below.g[low].transpose(1, 2))
            # h_s[id_t] for every pair of a unit's rows.
            scores = above.g[high.unsqueeze(2), below.ids[low].unsqueeze(1)]
            real = upper_is_row[part].unsqueeze(2) & lower_is_row[part].unsqueeze(1)
            products = dots.mul_(scores).masked_fill_(~real, 0.0)
            out[part] = products.sum((1, 2), dtype=torch.float64)
        return out


def of_pair(entries: Sequence[Entry]) -> Entry | None:
    """The entry of a tied table, where `entries` are exactly its two uses."""
    lookups = [entry for entry in entries if isinstance(entry, EmbeddingEntry)]
    heads = [entry for entry in entries if isinstance(entry, LinearEntry)]
    if len(entries) != 2 or len(lookups) != 1 or len(heads) != 1:
        return None
    if lookups[0].weight is not heads[0].weight:
        return None
    return TiedTableEntry(lookups[0], heads[0])


def _places(unit: np.ndarray, units: Units) -> tuple[Tensor, Tensor]:
    """[U, L] rows of each unit, padded with row 0, and a mask of the real ones."""
    counts = np.bincount(unit, minlength=units.num_units)
    order = torch.from_numpy(np.argsort(unit, kind="stable"))
    rows = pad_sequence(torch.split(order, counts.tolist()), batch_first=True)
    there = torch.arange(rows.shape[1]) < torch.from_numpy(counts).unsqueeze(1)
    return rows.to(units.device), there.to(units.device)

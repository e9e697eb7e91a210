"""Entries of shared parameters, whose gradients add up before any norm is taken, and of
an embedding table whose transpose is also the output map.

The table's gradient by one unit is sum_t e_t g_t^T (rows looked up) + sum_s h_s x_s^T
(output rows), with e_t the indicator of the id at t. The squared norm is that of both
parts plus twice their inner product, sum over s, t of h_s[id_t] (x_s . g_t): two small
Grams, no unit's gradient is formed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from trainables.dp.layers.embedding import EmbeddingEntry
from trainables.dp.layers.linear import LinearEntry
from trainables.dp.layers.packing import Rows
from trainables.dp.layers.recorder import LayerRecord, Views
from trainables.dp.layers.rounding import FLOAT32, Size, joint_size, upper_bound
from trainables.dp.layers.units import Units

_CELLS = 4_000_000  # numbers of a Gram held at once


@dataclass(eq=False)
class TiedEntry:
    """Entries with a parameter in common. Exact and slow: each unit's gradient is
    formed.
    """

    entries: list[LayerRecord]

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """Of all entries, each once."""
        return tuple(
            dict.fromkeys(p for entry in self.entries for p in entry.parameters)
        )

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """Squared norms by definition, plus the rounding bound of both ways of adding
        up.
        """
        views = {p: torch.empty_like(p) for p in self.parameters}
        norms = []
        for unit in range(units.num_units):
            for view in views.values():
                view.zero_()
            others = torch.ones(units.num_units, dtype=torch.bool, device=units.device)
            others[unit] = False
            for entry in self.entries:
                entry.without(units, others).add_gradient(None, None, views)
            norms.append(
                sum(
                    weights[p] * view.double().square().sum()
                    for p, view in views.items()
                )
            )
        squares = torch.stack([torch.as_tensor(norm) for norm in norms])
        return upper_bound(squares, self.size(units, weights))

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """The uses' sizes add up, as their gradients do."""
        return joint_size([entry.size(units, weights) for entry in self.entries])

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """One use after the other."""
        for entry in self.entries:
            entry.add_gradient(units, factors, views)

    def without(self, units: Units, dropped: Tensor) -> TiedEntry:
        """Every use without the rows of the dropped units."""
        return TiedEntry([entry.without(units, dropped) for entry in self.entries])


class TiedTableEntry(TiedEntry):
    """One look-up and one linear map that share their weight."""

    def __init__(self, lookup: EmbeddingEntry, head: LinearEntry) -> None:
        super().__init__([head, lookup])
        self.lookup, self.head = lookup, head

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """Both parts' squares and twice their inner product, with the rounding bound of
        each.
        """
        own = self.lookup.squared_norms(units, weights) + self.head.squared_norms(
            units, weights
        )
        crossed = self._inner_products(units).mul_(2 * weights[self.head.weight])
        # The Grams of the two parts are as wide as the table; their sum has a root of
        # its depth.
        relative = FLOAT32 * (self.head.x.shape[1] + 64)
        return upper_bound(own + crossed, self.size(units, weights), relative=relative)

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


def combine(entries: Sequence[LayerRecord]) -> list[LayerRecord]:
    """Entries that share parameters (also through a third) become one; the others
    stay.
    """
    found: list[list[LayerRecord]] = []
    for entry in entries:
        touched = [
            group
            for group in found
            if any(
                p is q
                for other in group
                for q in other.parameters
                for p in entry.parameters
            )
        ]
        found = [
            group for group in found if all(group is not other for other in touched)
        ]
        found.append([*(old for group in touched for old in group), entry])
    known: dict[tuple[Rows, ...], Rows] = {}
    return [
        group[0]
        if len(group) == 1
        else of_pair(group) or of_parts(group, known) or TiedEntry(group)
        for group in found
    ]


def of_parts(
    entries: Sequence[LayerRecord], known: dict[tuple[Rows, ...], Rows]
) -> LinearEntry | None:
    """The entry of one linear map, where `entries` are its uses on parts of a batch,
    each with rows of its own. `known` keeps the rows of all parts, so that all maps are
    regrouped once.
    """
    uses = [entry for entry in entries if isinstance(entry, LinearEntry)]
    first, rows = uses[0] if uses else None, tuple(use.rows for use in uses)
    if first is None or len(uses) < len(entries) or len(set(rows)) < len(rows):
        return None
    if any(
        use.weight is not first.weight or use.bias is not first.bias for use in uses
    ):
        return None
    if rows not in known:
        record = np.concatenate([each.record for each in rows])
        known[rows] = Rows(record, first.rows.num_records)
    x, g = (torch.cat([getattr(use, name) for use in uses]) for name in ("x", "g"))
    return LinearEntry(first.weight, first.bias, x, g, known[rows])


def of_pair(entries: Sequence[LayerRecord]) -> LayerRecord | None:
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
    rows = pad_sequence(list(torch.split(order, counts.tolist())), batch_first=True)
    there = torch.arange(rows.shape[1]) < torch.from_numpy(counts).unsqueeze(1)
    return rows.to(units.device), there.to(units.device)

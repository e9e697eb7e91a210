"""Parameters that several uses share: their gradients add up before any norm is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainables.layers.rounding import Size, joint_size, upper_bound
from trainables.layers.tape import Entry, Views
from trainables.layers.tied_table import of_pair
from trainables.layers.units import Units


@dataclass(eq=False)
class TiedEntry:
    """Entries with a parameter in common. Exact and slow: each unit's gradient is formed."""

    entries: list[Entry]

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """Of all entries, each once."""
        return tuple(dict.fromkeys(p for entry in self.entries for p in entry.parameters))

    def squared_norms(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Tensor:
        """Squared norms by definition, plus the rounding bound of both ways of adding up."""
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
                sum(weights[p] * view.double().square().sum() for p, view in views.items())
            )
        squares = torch.stack([torch.as_tensor(norm) for norm in norms])
        return upper_bound(squares, self.size(units, weights))

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """The uses' sizes add up, as their gradients do."""
        return joint_size([entry.size(units, weights) for entry in self.entries])

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """One use after the other."""
        for entry in self.entries:
            entry.add_gradient(units, factors, views)

    def without(self, units: Units, dropped: Tensor) -> TiedEntry:
        """Every use without the rows of the dropped units."""
        return TiedEntry([entry.without(units, dropped) for entry in self.entries])


def combine(entries: Sequence[Entry]) -> list[Entry]:
    """Entries that share parameters (also through a third) become one; the others stay."""
    found: list[list[Entry]] = []
    for entry in entries:
        touched = [
            group
            for group in found
            if any(p is q for other in group for q in other.parameters for p in entry.parameters)
        ]
        found = [group for group in found if all(group is not other for other in touched)]
        found.append([*(old for group in touched for old in group), entry])
    return [group[0] if len(group) == 1 else of_pair(group) or TiedEntry(group) for group in found]

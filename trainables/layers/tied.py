"""Parameters that several uses share: their gradients add up before any norm is taken."""

from __future__ import annotations

from collections.abc import Sequence

from trainables.layers.tape import Entry
from trainables.layers.tied_table import TiedEntry, of_pair


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

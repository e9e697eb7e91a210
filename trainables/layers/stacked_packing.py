"""The layouts of `packing` for a batch that holds the records of several stacked models.

The rows of a member lie together, so a product with its weights is a product of one block. Within
its block a member's rows have the order they have alone. Recurrences over time take all members at
once: their rows are put into a grid [members, cells] whose cells are the time-major rows of one
batch of "slots", slot b being as long as the longest of the members' b-th longest records. Cells
beyond a record's end are padding, which no result reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from trainables.layers.packing import (
    ByLength,
    Rows,
    TimeMajor,
    by_length,
    checked,
    inverse_of,
    tensor_like,
    time_major,
)

Members = tuple[int, ...]  # records of each member


@dataclass(frozen=True, eq=False)
class StackedTimeMajor(TimeMajor):
    """Member after member, each in its own time-major order; B and T are of all together.

    `sizes`, `starts` are the grid's; `previous` goes with the rows `later`.
    """

    grid: TimeMajor  # of the slots
    first: Tensor  # int64[B], row of each record's first token, records in `order`
    later: Tensor  # int64[T - B], the rows that are no first token
    member: Tensor  # int64[B], member of each record, records in `order`
    # int64[T] each: the cell, in a grid [members, directions, cells], of a row that is read
    # forwards, and of one that is read from the record's end.
    cells: tuple[Tensor, Tensor]
    lengths: Tensor  # int64[B], as they were given
    first_rows: Rows  # of the rows `first`, and of those `later`
    later_rows: Rows

    @cached_property
    def own(self) -> tuple[TimeMajor, ...]:
        """Each member's own layout, its `rows` with the numbers that records have in the batch."""
        members = self.rows.members or ()
        layouts = [time_major(lengths) for lengths in torch.split(self.lengths, list(members))]
        return tuple(
            replace(layout, rows=Rows(layout.rows.record + first, layout.num_records))
            for layout, first in zip(layouts, _before(members).tolist(), strict=True)
        )

    @property
    def num_cells(self) -> int:
        """Of one member and direction."""
        return self.grid.source.numel()


def time_major_of(lengths: Tensor, members: Members | None) -> TimeMajor:
    """`time_major`, or `stacked_time_major` where the batch is a stack's."""
    return time_major(lengths) if members is None else stacked_time_major(lengths, members)


def by_length_of(lengths: Tensor, members: Members | None) -> ByLength:
    """`by_length`, or `stacked_by_length` where the batch is a stack's."""
    return by_length(lengths) if members is None else stacked_by_length(lengths, members)


def stacked_time_major(lengths: Tensor, members: Members) -> StackedTimeMajor:
    """The order of `StackedTimeMajor` of records of these `lengths` (int64[B], each >= 1).

    >>> layout = stacked_time_major(torch.tensor([1, 2, 3]), (2, 1))
    >>> layout.source.tolist(), layout.grid.sizes, layout.cells[0].tolist()
    ([1, 0, 2, 3, 4, 5], (2, 1, 1), [0, 1, 2, 8, 10, 11])
    """
    sizes = checked(lengths)
    member = np.repeat(np.arange(len(members)), members)
    order = np.lexsort((-sizes, member))  # stable: as in `time_major` within a member
    falling = sizes[order]
    slot = np.arange(sizes.size) - _before(members)[member]
    slots = np.zeros(max(members), dtype=np.int64)
    np.maximum.at(slots, slot, falling)
    grid = time_major(torch.from_numpy(slots).to(lengths.device))
    # Tokens, one record after another, then sorted by member, time and slot.
    token = _before(falling)
    record = np.repeat(np.arange(sizes.size), falling)
    time = np.arange(record.size) - token[record]
    sort = np.lexsort((slot[record], time, member[record]))
    row = inverse_of(sort)
    record, time = record[sort], time[sort]
    later = np.flatnonzero(time)
    back = falling[record] - 1 - time
    starts = np.array(grid.starts)
    cell = starts[time] + slot[record]
    lane = 2 * member[record]
    num_cells = int(slots.sum())

    def tensor(values: np.ndarray) -> Tensor:
        return tensor_like(values, lengths)

    return StackedTimeMajor(
        rows=Rows(order[record], sizes.size, members),
        record=tensor(order[record]),
        position=tensor(time),
        order=tensor(order),
        rank=tensor(inverse_of(order)),
        sizes=grid.sizes,
        starts=grid.starts,
        source=tensor(_before(sizes)[order[record]] + time),
        place=tensor(inverse_of(_before(sizes)[order[record]] + time)),
        reverse=tensor(row[token[record] + back]),
        last=tensor(row[token + falling - 1]),
        previous=tensor(row[token[record[later]] + time[later] - 1]),
        grid=grid,
        first=tensor(row[token]),
        later=tensor(later),
        member=tensor(member),
        cells=(
            tensor(lane * num_cells + cell),
            tensor((lane + 1) * num_cells + starts[back] + slot[record]),
        ),
        lengths=lengths,
        first_rows=Rows(order, sizes.size, members),
        later_rows=Rows(order[record[later]], sizes.size, members),
    )


def stacked_by_length(lengths: Tensor, members: Members) -> ByLength:
    """Member after member, each in the order of `by_length`; `groups` take them all together.

    >>> layout = stacked_by_length(torch.tensor([1, 2, 2]), (2, 1))
    >>> layout.source.tolist(), layout.groups, layout.regrouped[0].tolist()
    ([1, 2, 0, 3, 4], ((0, 2, 2), (4, 1, 1)), [0, 1, 3, 4, 2])
    """
    sizes = checked(lengths)
    member = np.repeat(np.arange(len(members)), members)
    order = np.lexsort((-sizes, member))
    falling = sizes[order]
    starts = _before(falling)
    record = np.repeat(order, falling)
    position = np.arange(record.size) - np.repeat(starts, falling)
    source = _before(sizes)[record] + position
    together = np.argsort(-sizes[record], kind="stable")
    values, counts = np.unique(-falling, return_counts=True)
    before = _before(counts * -values)

    def tensor(values: np.ndarray) -> Tensor:
        return tensor_like(values, lengths)

    return ByLength(
        rows=Rows(record, sizes.size, members),
        record=tensor(record),
        source=tensor(source),
        place=tensor(inverse_of(source)),
        position=tensor(position),
        first=tensor(starts[inverse_of(order)]),
        groups=tuple(zip(before.tolist(), counts.tolist(), (-values).tolist(), strict=True)),
        regrouped=(tensor(together), tensor(inverse_of(together))),
    )


def _before(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """The sum of the counts before each one."""
    before: np.ndarray = np.cumsum(counts) - np.asarray(counts)
    return before

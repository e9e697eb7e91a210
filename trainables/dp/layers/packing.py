"""Token-packed layouts: the order of an activation's rows, so that no padding is
computed.

A batch arrives *packed*: its records' tokens one after another. Two orders of the same
rows are used inside the models:

- time-major (`TimeMajor`): records by falling length, the first token of each, then the
  second of each that has one, ... A recurrence over time then works on the first
  `sizes[t]` rows of a state.
- record-major by falling length (`ByLength`): records of equal length lie side by side,
  so they can be viewed as (records, length, width) without a copy.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Rows:
    """Which record each row of an activation is of: `record` int64[n], numbers from 0
    to num_records - 1 in the batch's order. Layers get it with their input, so that a
    recorded gradient can be summed by record. Compared by identity: one object stands
    for one order of rows and is regrouped once.
    """

    record: np.ndarray  # int64[n]
    num_records: int


@dataclass(frozen=True, eq=False)
class TimeMajor:
    """The time-major order of a packed batch of B records and T tokens: records by
    falling length, the first token of each, then the second of each that has one, and
    so on, so that a recurrence at time t works on the first `sizes[t]` rows of its
    state. Made by `time_major`; index tensors are on the device of the lengths.
    """

    rows: Rows
    record: Tensor  # int64[T], record of each row, in the batch's order
    position: Tensor  # int64[T], time of each row
    order: Tensor  # int64[B], records by falling length
    rank: Tensor  # int64[B], the place of each record in `order`
    sizes: tuple[int, ...]  # records that have a token at time t; falling
    starts: tuple[int, ...]  # first row of time t
    source: Tensor  # int64[T], row here -> row of the packed batch
    place: Tensor  # int64[T], row of the packed batch -> row here
    # int64[T], row of (t, b) -> row of (length_b - 1 - t, b); its own inverse
    reverse: Tensor
    last: Tensor  # int64[B], row of each record's last token, records in `order`
    previous: Tensor  # int64[T-B], row of (t - 1, b) for the rows after the first B

    @property
    def num_records(self) -> int:
        """B."""
        return self.rows.num_records


@dataclass(frozen=True, eq=False)
class ByLength:
    """The record-major order of a packed batch of B records and T tokens: records by
    falling length, the tokens of each together, so that the records of one length can
    be viewed as [records, length, width] without a copy. Attention reads it by
    `groups`. Made by `by_length`; index tensors are on the device of the lengths.
    """

    rows: Rows
    record: Tensor  # int64[T], record of each row, in the batch's order
    source: Tensor  # int64[T], row here -> row of the packed batch
    place: Tensor  # int64[T], row of the packed batch -> row here
    position: Tensor  # int64[T], place of the row within its record
    first: (
        Tensor  # int64[B], row of the first token of each record, in the batch's order
    )
    groups: tuple[
        tuple[int, int, int], ...
    ]  # first row, number of records, their length


def falling_order(lengths: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`lengths` as an array, the order in which they fall, and that array in it.

    Raises: InvalidInput where one is not at least 1, or there is none.
    """
    sizes = lengths.detach().cpu().numpy().astype(np.int64)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.min() < 1:
        raise InvalidInput("expected lengths to be a non-empty vector of numbers >= 1")
    order = np.argsort(-sizes, kind="stable")
    return sizes, order, sizes[order]


def tensor_like(values: np.ndarray, like: Tensor) -> Tensor:
    """`values` on the device of `like`."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(
        like.device, non_blocking=True
    )


def equal_runs(falling: np.ndarray) -> tuple[tuple[int, int, int], ...]:
    """First row, number of records and their length, of each run of equal lengths.

    >>> equal_runs(np.array([2, 1, 1]))
    ((0, 1, 2), (2, 2, 1))
    """
    lengths, numbers = np.unique(-falling, return_counts=True)
    ends = np.cumsum(-lengths * numbers)
    starts = ends + lengths * numbers
    return tuple(zip(*(v.tolist() for v in (starts, numbers, -lengths)), strict=True))


def time_major(lengths: Tensor) -> TimeMajor:
    """The time-major order of records of these `lengths`, int64[B], each at least 1;
    ties keep the batch's order. It is computed on the CPU, so it waits for a device
    that holds the lengths.

    Raises: InvalidInput for a length below 1, or none.

    >>> layout = time_major(torch.tensor([1, 3]))
    >>> layout.sizes, layout.source.tolist()
    ((2, 1, 1), [1, 0, 2, 3])
    """
    sizes, order, falling = falling_order(lengths)
    longest = int(falling[0])
    active = np.searchsorted(-falling, -np.arange(longest), side="left")
    starts = np.cumsum(active) - active
    time = np.repeat(np.arange(longest), active)
    record = np.arange(time.size) - starts[time]
    offsets = np.cumsum(sizes) - sizes
    source = offsets[order[record]] + time
    later = np.arange(sizes.size, time.size)
    return TimeMajor(
        rows=Rows(order[record], sizes.size),
        record=tensor_like(order[record], lengths),
        position=tensor_like(time, lengths),
        order=tensor_like(order, lengths),
        rank=tensor_like(np.argsort(order), lengths),  # the inverse of a permutation
        sizes=tuple(active.tolist()),
        starts=tuple(starts.tolist()),
        source=tensor_like(source, lengths),
        place=tensor_like(np.argsort(source), lengths),
        reverse=tensor_like(starts[falling[record] - 1 - time] + record, lengths),
        last=tensor_like(starts[falling - 1] + np.arange(sizes.size), lengths),
        previous=tensor_like(starts[time[later] - 1] + record[later], lengths),
    )


def by_length(lengths: Tensor) -> ByLength:
    """The record-major order of records of these `lengths`, int64[B], each at least 1,
    the longest first; ties keep the batch's order. It is computed on the CPU, so it
    waits for a device that holds the lengths.

    Raises: InvalidInput for a length below 1, or none.
    """
    sizes, order, falling = falling_order(lengths)
    starts = np.cumsum(falling) - falling
    record = np.repeat(order, falling)
    position = np.arange(record.size) - np.repeat(starts, falling)
    offsets = np.cumsum(sizes) - sizes
    source = offsets[record] + position
    return ByLength(
        rows=Rows(record, sizes.size),
        record=tensor_like(record, lengths),
        source=tensor_like(source, lengths),
        place=tensor_like(np.argsort(source), lengths),
        position=tensor_like(position, lengths),
        first=tensor_like(starts[np.argsort(order)], lengths),
        groups=equal_runs(falling),
    )


def one_row_each(num_records: int) -> Rows:
    """The `Rows` of an activation that has one row for each record, in the batch's
    order, such as the vector that an intent head reads. A new object at each call: pass
    one to all layers that read the same rows, because each regroups the rows of an
    object once.
    """
    return Rows(np.arange(num_records, dtype=np.int64), num_records)


def mean_over_record(x: Tensor, record: Tensor, lengths: Tensor) -> Tensor:
    """The mean of each record's rows: `x` [n, D] and `record` int64[n], the record of
    each row, to [B, D] in the batch's order. `lengths` int64[B] are the numbers of rows
    of the records; rows may stand in any order. Summed in the type of `x`, so the last
    bits depend on the order.
    """
    return x.new_zeros(len(lengths), x.shape[1]).index_add(
        0, record, x
    ) / lengths.unsqueeze(1)

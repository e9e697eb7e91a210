"""The tape: what the layers write down during one backward pass instead of weight gradients.

While a tape is active, a layer's backward returns only the gradient of its input and hands the tape
an `Entry`: the activations and output gradients from which any weighted sum of per-record weight
gradients, and its per-unit norms, can be computed afterwards (book-keeping, Bu et al. 2023).
Without a tape the layers are ordinary autograd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from trainables.layers.packing import Rows
from trainables.layers.rounding import Size

Views = Mapping[nn.Parameter, Tensor]  # where the gradient of each trainable parameter is added


@dataclass(frozen=True, eq=False)
class Cells:
    """Room for two kinds of Grams, `left` and `right`, of a run of groups; used again and again.

    `tiles`: for each group its place in both, [units, rows, rows]. A Gram may have more rows than
    a unit, so `valid` int64[m] are the numbers to read and `unit` int64[m] whose they are.
    """

    left: Tensor
    right: Tensor
    tiles: tuple[tuple[Tensor, Tensor], ...]
    valid: Tensor
    unit: Tensor


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of an activation regrouped so that the rows of one unit are contiguous.

    Units with equally many rows stand side by side: each group can be viewed as
    (units, rows of each, width). A unit without rows is in no group.
    """

    unit: Tensor  # int64[n], unit of each row, in the activation's own order
    order: Tensor | None  # int64[n], rows regrouped; None: they already lie so
    groups: tuple[tuple[int, int, int], ...]  # first row, number of units, rows of each
    units: Tensor  # int64[number of units with rows], in the order of the groups
    num_units: int
    _cells: dict[int, Cells] = field(default_factory=dict)

    @property
    def most_rows(self) -> int:
        """Of any unit; 0 where there are no rows."""
        return self.groups[0][2] if self.groups else 0

    def regroup(self, values: Tensor) -> Tensor:
        """The rows of `values` in group order (no copy where they already lie so)."""
        values = values.contiguous()
        return values if self.order is None else values.index_select(0, self.order)

    def cells(self, first_group: int, like: Tensor) -> Cells:
        """For the Grams of the groups from `first_group` on, numbers as in `like`; made once."""
        if first_group not in self._cells:
            self._cells[first_group] = self._lay_out(first_group, like)
        return self._cells[first_group]

    def _lay_out(self, first_group: int, like: Tensor) -> Cells:
        num_rows = self.unit.numel()
        shapes: list[tuple[int, int, int]] = []
        valid: list[np.ndarray] = []
        numbers: list[np.ndarray] = []
        begin = 0
        for start, number, size in self.groups[first_group:]:
            tile = -(-size // 8) * 8 if size > 8 and size % 8 > 2 else size
            if start + (number - 1) * size + tile > num_rows:
                tile = size  # there are no rows behind the last unit
            shapes.append((number, tile, tile))
            inside = np.arange(size)
            cells = inside[:, None] * tile + inside
            own = begin + np.arange(number)[:, None] * tile**2 + cells.ravel()
            valid.append(own.ravel())
            numbers.append(np.full(number, size**2))
            begin += number * tile**2
        place = sum(number for _, number, _ in self.groups[:first_group])
        repeats = torch.from_numpy(np.concatenate(numbers)).to(self.units.device)
        both = [like.new_empty(begin) for _ in range(2)]
        sizes = [number * rows * rows for number, rows, _ in shapes]
        views = [
            [part.view(shape) for part, shape in zip(torch.split(flat, sizes), shapes, strict=True)]
            for flat in both
        ]
        return Cells(
            left=both[0],
            right=both[1],
            tiles=tuple(zip(*views, strict=True)),
            valid=torch.from_numpy(np.concatenate(valid)).to(self.units.device),
            # With its size known, nothing waits for the device to say it.
            unit=self.units[place:].repeat_interleave(
                repeats, output_size=sum(part.size for part in valid)
            ),
        )

    def scatter(self, per_unit: Tensor) -> Tensor:
        """Values in the order of `units` -> one value for each of all units (0 without rows)."""
        out = per_unit.new_zeros(self.num_units)
        return out.index_copy_(0, self.units, per_unit)


class Units:
    """Which unit (micro-batch) each record of a batch belongs to."""

    def __init__(
        self, of_record: Tensor, num_units: int, *, device: torch.device | None = None
    ) -> None:
        self.of_record = of_record.detach().cpu().numpy().astype(np.int64)
        self.num_units = num_units
        self.device = of_record.device if device is None else device
        self._of: dict[int, UnitRows] = {}
        self._kept: list[Rows] = []  # so that no id is reused while this object lives

    def of(self, rows: Rows) -> UnitRows:
        """The regrouping of one activation's rows; computed once for each `rows`."""
        found = self._of.get(id(rows))
        if found is None:
            found = self._group(rows)
            self._of[id(rows)] = found
            self._kept.append(rows)
        return found

    def _group(self, rows: Rows) -> UnitRows:
        unit = self.of_record[rows.record]
        counts = np.bincount(unit, minlength=self.num_units)
        # Largest units first; within one size the order in which the units first appear.
        first = np.full(self.num_units, unit.size)
        np.minimum.at(first, unit, np.arange(unit.size))
        order = np.lexsort((np.arange(unit.size), first[unit], -counts[unit]))
        units = np.lexsort((first, -counts))[: int((counts > 0).sum())]
        groups: list[tuple[int, int, int]] = []
        start = 0
        sizes, numbers = np.unique(-counts[units], return_counts=True)
        for size, number in zip((-sizes).tolist(), numbers.tolist(), strict=True):
            groups.append((start, number, size))
            start += number * size
        in_place = bool((order == np.arange(unit.size)).all())

        def tensor(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values).to(self.device)

        return UnitRows(
            unit=tensor(unit),
            order=None if in_place else tensor(order),
            groups=tuple(groups),
            units=tensor(units),
            num_units=self.num_units,
        )


class Entry(Protocol):
    """What one use of a layer left on the tape."""

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """The trainable parameters whose gradient this entry determines."""
        ...

    def squared_norms(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Tensor:
        """float64[U]: sum over the parameters of weights[p] * |gradient of p by unit|^2.

        Never below that of what `add_gradient` gives in float32 for factor 1 (see `rounding`).
        """
        ...

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """Sum over a unit's rows of the norm of each row's own gradient, in the same scale."""
        ...

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """Add sum over units of factors[u] * gradient into `views`; None: factor 1 for all."""
        ...

    def without(self, units: Units, dropped: Tensor) -> Entry:
        """The same with zero rows for the units that are True in `dropped` [U]."""
        ...


@dataclass(eq=False)
class Tape:
    """Entries in the order of the backward pass; with `views`, gradients are added at once."""

    views: Views | None = None
    entries: list[Entry] = field(default_factory=list)
    seen: set[nn.Parameter] = field(default_factory=set)

    def receive(self, entry: Entry) -> None:
        """Called by a layer's backward. What the entry holds must be detached: an activation with
        its graph would hold this tape in turn, and both would wait for the garbage collector."""
        self.seen.update(entry.parameters)
        if self.views is None:
            self.entries.append(entry)
        else:
            entry.add_gradient(None, None, self.views)


_ACTIVE: ContextVar[Tape | None] = ContextVar("tape", default=None)


def current() -> Tape | None:
    """The active tape, if any. Layers ask in `forward`; their backward uses what forward saw."""
    return _ACTIVE.get()


@contextmanager
def recording(tape: Tape) -> Iterator[Tape]:
    """Make `tape` the active one for the forward passes inside."""
    token = _ACTIVE.set(tape)
    try:
        yield tape
    finally:
        _ACTIVE.reset(token)


def apply(
    function: type[torch.autograd.Function], *arguments: object, widen: bool = True
) -> Tensor:
    """`function.apply` on float32, whatever `layers.precision` makes of other layers.

    With `widen=False` numbers arrive as they are: the function sees to its own precision.
    """
    device = next((x.device.type for x in arguments if isinstance(x, Tensor)), "cpu")
    if not torch.is_autocast_enabled(device):
        return cast(Tensor, function.apply(*arguments))  # type: ignore[no-untyped-call]  # torch's
    if widen:
        arguments = tuple(
            x.float() if isinstance(x, Tensor) and x.dtype == torch.bfloat16 else x
            for x in arguments
        )
    with torch.autocast(device, enabled=False):
        return cast(Tensor, function.apply(*arguments))  # type: ignore[no-untyped-call]  # torch's


def row_factors(units: Units | None, factors: Tensor | None, rows: Rows) -> Tensor | None:
    """[n]: the factor of each row's unit, or None where all are 1."""
    if units is None or factors is None:
        return None
    return factors.index_select(0, units.of(rows).unit)


def scaled_pair(g: Tensor, x: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """`g` and `x` with the rows of one of them, the narrower, multiplied by `scale`."""
    if scale is None:
        return g, x
    if g.shape[1] <= x.shape[1]:
        return g * scale.unsqueeze(1), x
    return g, x * scale.unsqueeze(1)


def column_sums(values: Tensor, scale: Tensor | None) -> Tensor:
    """[D]: sum of the rows of `values` [n, D], each times its number of `scale`."""
    return values.sum(0) if scale is None else scale @ values


def cleared(values: Tensor, units: Units, dropped: Tensor, rows: Rows) -> Tensor:
    """`values` [n, .] with the rows of the dropped units set to 0, whatever they held."""
    gone = dropped.index_select(0, units.of(rows).unit)
    return values.masked_fill(gone.view(-1, *[1] * (values.dim() - 1)), 0.0)


def trainable(*parameters: nn.Parameter | None) -> tuple[nn.Parameter, ...]:
    """Those that are there and are trained."""
    return tuple(p for p in parameters if p is not None and p.requires_grad)

"""The clipping unit of each row of an activation, and the order of rows by unit."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.dp.layers.packing import Rows, equal_runs


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of an activation regrouped so that the rows of one unit are contiguous.

    Units with equally many rows are adjacent, so each group can be viewed as (units,
    rows of each, width). A unit without rows is in no group.
    """

    unit: Tensor  # int64[n], unit of each row, in the activation's own order
    order: Tensor | None  # int64[n], rows regrouped; None: already in order
    groups: tuple[tuple[int, int, int], ...]  # first row, number of units, rows of each
    units: Tensor  # int64[number of units with rows], in the order of the groups
    num_units: int
    rows_of_unit: (
        Tensor  # int64[U]; what a bound reads, so that it depends on its unit alone
    )

    def regroup(self, values: Tensor) -> Tensor:
        """The rows of `values` in group order (no copy where they already are)."""
        values = values.contiguous()
        return values if self.order is None else values.index_select(0, self.order)


class Units:
    """Which clipping unit (a record, a group or a micro-batch) each record of a
    physical batch belongs to: `of_record` int64[B], numbers below `num_units`. It
    regroups the rows of any activation by unit, once for each `Rows` object, on
    `device` (by default that of `of_record`). A unit may have no record.
    """

    def __init__(
        self, of_record: Tensor, num_units: int, *, device: torch.device | None = None
    ) -> None:
        self.of_record = of_record.detach().cpu().numpy().astype(np.int64)
        self.num_units = num_units
        self.device = of_record.device if device is None else device
        self._of: dict[Rows, UnitRows] = {}

    def of(self, rows: Rows) -> UnitRows:
        """The regrouping of one activation's rows; computed once for each `rows`."""
        if rows not in self._of:
            self._of[rows] = self._group(rows)
        return self._of[rows]

    def _group(self, rows: Rows) -> UnitRows:
        unit = self.of_record[rows.record]
        counts = np.bincount(unit, minlength=self.num_units)
        # Largest units first; within one size by number, the rows of a unit as they
        # come.
        order = np.lexsort((unit, -counts[unit]))
        units = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        in_place = bool((order == np.arange(unit.size)).all())

        def tensor(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values).to(self.device)

        return UnitRows(
            unit=tensor(unit),
            order=None if in_place else tensor(order),
            groups=equal_runs(counts[units]),
            units=tensor(units),
            num_units=self.num_units,
            rows_of_unit=tensor(counts),
        )

"""A tiny model with chosen per-record gradients, for audits and tests.

loss_i = sum over groups k of W_k x_ik, so record i's gradient in group k is x_ik,
whatever the weights.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import one_row_each
from trainables.dp.population import Ids
from trainables.dp.sampling import SampledBatch


class ChosenGradients(nn.Module):
    """A batch is float32[B, sum of widths]: the gradient of each record."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.groups = nn.ModuleList(Linear(width, 1, bias=False) for width in widths)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def losses(self, batch: Tensor) -> Tensor:
        """[B]."""
        rows = one_row_each(len(batch))
        parts = torch.split(batch, list(self.widths), dim=1)
        terms = [group(x, rows) for group, x in zip(self.groups, parts, strict=True)]
        return torch.cat(terms, dim=1).sum(1)


class ChosenByRecord(nn.Module):
    """The same of bare parameters, taken apart into records: what `torch.func`
    clips.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.weights = nn.ParameterList(torch.zeros(width) for width in widths)

    def record_groups(
        self, batch: Tensor
    ) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
        """All records at once."""
        yield torch.arange(len(batch), device=batch.device), (batch,)

    def forward(self, rows: Tensor) -> Tensor:
        """[B]: the losses."""
        parts = torch.split(rows, list(self.widths), dim=1)
        found = [x @ weight for x, weight in zip(parts, self.weights, strict=True)]
        return torch.stack(found).sum(0)

    losses = forward


class ChosenRecords:
    """A loader over a table of gradients, float32[n, D]: record i has row i."""

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def batch(self, ids: Ids) -> Tensor:
        """The rows of these records."""
        return self.table[torch.from_numpy(ids)]


def draw_of(units: Sequence[Sequence[int]]) -> SampledBatch:
    """The draw of one process that plays every worker, with these rows in its units."""
    sizes = np.array([len(unit) for unit in units], dtype=np.int64)
    records = np.array([row for unit in units for row in unit], dtype=np.int64)
    return SampledBatch(
        records=records,
        unit=np.repeat(np.arange(len(units)), sizes),
        sizes=sizes,
        worker=np.zeros_like(sizes),
        num_drawn=len(records),
    )


class ChosenBatch:
    """A sampler that returns the draw `now` at every step, until it is replaced."""

    def __init__(self, draw: SampledBatch) -> None:
        self.now = draw

    def draw(self, epoch: int, step: int) -> SampledBatch:
        """The draw of any step."""
        return self.now

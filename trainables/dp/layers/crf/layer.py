"""The linear-chain CRF (Lafferty et al. 2001) of `pytorch-crf`, over packed rows.

Parameters and their initialisation are that package's. Its loss is one autograd node
here, because `statistics` computes the loss and every gradient in one pass, separate by
record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torchcrf import CRF

from trainables.dp.layers.crf.statistics import (
    Pairs,
    Scores,
    forward_backward,
    path_scores,
)
from trainables.dp.layers.crf.viterbi import best_paths
from trainables.dp.layers.packing import Rows, TimeMajor
from trainables.dp.layers.recorder import (
    Recorder,
    Views,
    apply,
    clear_units,
    column_sums,
    current,
    gradients,
    is_plain,
    row_factors,
)
from trainables.dp.layers.rounding import Size, row_norms, sum_of_norms, sums_of
from trainables.dp.layers.units import UnitRows, Units

_CHUNK = 1 << 22  # numbers of per-unit transition gradients that are held at once


@dataclass(eq=False)
class CrfEntry:
    """Gradients of the three parameters, separate by record or by row.

    `start`, `end` [B, L] with their `records`; `pairs` with the `tags` (from, to) [T -
    B] that were seen, the weight [T - B] of each row's record, and their `rows`.
    """

    crf: LinearChainCrf
    start: Tensor
    end: Tensor
    records: Rows
    pairs: Pairs
    tags: tuple[Tensor, Tensor]
    weight: Tensor
    rows: Rows

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """Transitions, start and end scores."""
        crf = self.crf
        own = crf.transitions, crf.start_transitions, crf.end_transitions
        return tuple(p for p in own if p.requires_grad)

    def _ends(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """The gradients of start and end scores that are trained."""
        for parameter, values in (
            (self.crf.start_transitions, self.start),
            (self.crf.end_transitions, self.end),
        ):
            if parameter.requires_grad:
                yield parameter, values

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """The per-unit gradients are small enough to be formed, a chunk of units at a
        time.
        """
        unit = units.of(self.records).unit
        total = self.start.new_zeros(units.num_units, dtype=torch.float64)
        for parameter, values in self._ends():
            total += (
                row_norms(sums_of(values, unit, units.num_units))
                .square_()
                .mul_(weights[parameter])
            )
        if self.crf.transitions.requires_grad and self.weight.numel():
            total += self._transition_norms(units.of(self.rows)).mul_(
                weights[self.crf.transitions]
            )
        return (total.sqrt_() + self.size(units, weights).rounding).square_()

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """Sum of the norms of the rows of start and end; a pair of tags adds at most 1
        for the expected and 1 for the observed count.
        """
        records, rows = units.of(self.records), units.of(self.rows)
        squares = self.start.new_zeros(units.num_units, dtype=torch.float64)
        for parameter, values in self._ends():
            own = sum_of_norms(values, records.unit, units.num_units)
            squares += own.square_().mul_(weights[parameter])
        if self.crf.transitions.requires_grad:
            both = 2 * sum_of_norms(
                self.weight.unsqueeze(1), rows.unit, units.num_units
            )
            squares += both.square_().mul_(weights[self.crf.transitions])
        return Size(
            squares.sqrt_(), torch.maximum(records.rows_of_unit, rows.rows_of_unit)
        )

    def _transition_norms(self, rows: UnitRows) -> Tensor:
        num_tags = self.crf.num_tags
        at_once = max(1, _CHUNK // num_tags**2)
        cells = rows.regroup(self.tags[0] * num_tags + self.tags[1])
        weight = rows.regroup(self.weight)
        found = []
        for first, number, size in rows.groups:
            for begin in range(0, number, at_once):
                count = min(at_once, number - begin)
                taken = slice(first + begin * size, first + (begin + count) * size)
                sums = self.pairs.sums(rows.order, taken, count, weight[taken])
                owner = torch.arange(count, device=cells.device).repeat_interleave(size)
                flat = sums.view(-1)
                flat.index_add_(
                    0, owner * num_tags**2 + cells[taken], weight[taken], alpha=-1
                )
                found.append(row_norms(sums.view(count, -1)).square_())
        values = torch.cat(found)
        return values.new_zeros(rows.num_units).index_copy_(0, rows.units, values)

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """Expected minus seen, weighted by record."""
        scale = row_factors(units, factors, self.records)
        for parameter, values in self._ends():
            views[parameter].add_(column_sums(values, scale))
        if self.crf.transitions.requires_grad and self.weight.numel():
            scale = row_factors(units, factors, self.rows)
            weight = self.weight if scale is None else self.weight * scale
            sums = self.pairs.sums(None, slice(None), 1, weight)[0]
            sums.index_put_(self.tags, -weight, accumulate=True)
            views[self.crf.transitions].add_(sums)

    def without(self, units: Units, dropped: Tensor) -> CrfEntry:
        """Rows of the dropped units set to 0."""
        start, end = (
            clear_units(v, units, dropped, self.records) for v in (self.start, self.end)
        )
        gone = dropped.index_select(0, units.of(self.rows).unit)
        return replace(
            self,
            start=start,
            end=end,
            pairs=self.pairs.without(gone),
            weight=self.weight.masked_fill(gone, 0.0),
        )


class _NegativeLogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor,
        end: Tensor,
        tags: Tensor,
        crf: LinearChainCrf,
        layout: TimeMajor,
        tape: Recorder | None,
    ) -> Tensor:
        scores = Scores(transitions, start, end)
        found = forward_backward(emissions, scores, layout, by_scores=True)
        ctx.save_for_backward(found.marginals, tags)
        ctx.layer = (found.pairs, crf, layout, tape)
        log_likelihood = (
            path_scores(emissions, tags, scores, layout) - found.log_partition
        )
        return -log_likelihood.index_select(0, layout.rank)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        marginals, tags = ctx.saved_tensors
        pairs, crf, layout, tape = ctx.layer
        num = layout.num_records
        weight = g.index_select(0, layout.record)
        g_emissions = marginals.clone()
        g_emissions[torch.arange(tags.numel(), device=tags.device), tags] -= 1
        g_emissions *= weight.unsqueeze(1)
        record = layout.rows.record
        entry = CrfEntry(
            crf,
            start=g_emissions[:num],
            end=g_emissions.index_select(0, layout.last),
            records=Rows(record[:num], num),
            pairs=pairs,
            tags=(tags.index_select(0, layout.previous), tags[num:]),
            weight=weight[num:],
            rows=Rows(record[num:], num),
        )
        views = gradients(entry, tape)
        own = (
            views.get(crf.transitions),
            views.get(crf.start_transitions),
            views.get(crf.end_transitions),
        )
        return g_emissions, *own, None, None, None, None


class LinearChainCrf(CRF):  # type: ignore[misc]  # which has no types
    """A CRF over L tags: `transitions` [L, L] (from, to), `start_transitions` and
    `end_transitions` [L], in nats.

    Evaluation reads `best_paths`: the inherited `decode`, of padded batches, finds the
    same paths and makes the prediction of ATIS (CLC, 256 records at a time) 4 times as
    slow.
    """

    @property
    def scores(self) -> Scores:
        """The parameters as plain tensors."""
        return Scores(
            *(
                p.detach()
                for p in (
                    self.transitions,
                    self.start_transitions,
                    self.end_transitions,
                )
            )
        )

    def forward(self, emissions: Tensor, tags: Tensor, layout: TimeMajor) -> Tensor:
        """[B]: negative log-likelihood of each record's tags, in the batch's order.

        `emissions` [T, L] and `tags` int64[T] are in the time-major order of `layout`.
        """
        if is_plain():
            return self._by_torchcrf(emissions, tags, layout)
        return apply(
            _NegativeLogLikelihood,
            emissions,
            self.transitions,
            self.start_transitions,
            self.end_transitions,
            tags,
            self,
            layout,
            current(),
        )

    def _by_torchcrf(
        self, emissions: Tensor, tags: Tensor, layout: TimeMajor
    ) -> Tensor:
        """The same by the package, of padded batches."""
        cells = layout.position, layout.rank.index_select(0, layout.record)
        shape = len(layout.sizes), layout.num_records
        padded = emissions.new_zeros(*shape, self.num_tags).index_put(cells, emissions)
        gold = tags.new_zeros(shape).index_put(cells, tags)
        mask = torch.zeros(shape, dtype=torch.bool, device=tags.device)
        mask = mask.index_put(cells, mask.new_ones(()))
        found: Tensor = super().forward(padded, gold, mask=mask, reduction="none")
        return -found.index_select(0, layout.rank)

    def best_paths(self, emissions: Tensor, layout: TimeMajor) -> tuple[Tensor, Tensor]:
        """Tags int64[T] and scores [B] as `viterbi.best_paths` gives them."""
        return best_paths(emissions, self.scores, layout)

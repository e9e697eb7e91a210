"""Several linear-chain CRFs at once: 2K messages advance together over the layout's grid.

In exponential space only (`crf_statistics`): `fits` says whether a member's scores allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.errors import InvalidInput
from trainables.layers.crf import CrfEntry, LinearChainCrf
from trainables.layers.crf_statistics import (
    ProductPairs,
    messages,
    place_of_record,
    within_range,
)
from trainables.layers.packing import TimeMajor
from trainables.layers.stacked.blocks import Blocks, anchor, views_of, weights_of
from trainables.layers.stacked_packing import StackedTimeMajor
from trainables.layers.tape import Tape, Units, Views, apply, current, row_factors


def fits(crf: LinearChainCrf) -> bool:
    """Whether the scores of `crf` are close enough together for a stack's exponential space."""
    return within_range(crf.scores)


@dataclass(frozen=True, eq=False)
class StackedPairs:
    """`ProductPairs` with one `factor` [K, L, L] a member; `member` int64[T - B] of each row."""

    factor: Tensor
    left: Tensor
    right: Tensor
    member: Tensor

    def sums(self, order: Tensor | None, taken: slice, number: int, weight: Tensor) -> Tensor:
        """As `Pairs.sums`; the rows of a run are one member's."""
        plain = ProductPairs(torch.ones_like(weight[:1]), self.left, self.right)
        member = (self.member if order is None else self.member[order])[taken].view(number, -1)
        return plain.sums(order, taken, number, weight).mul_(self.factor[member[:, 0]])

    def without(self, dropped: Tensor) -> StackedPairs:
        """Those rows set to 0."""
        left, right = (v.masked_fill(dropped.unsqueeze(1), 0.0) for v in (self.left, self.right))
        return StackedPairs(self.factor, left, right, self.member)


@dataclass(frozen=True, eq=False)
class _Stacked:
    """The scores of K CRFs: `transitions` [K, L, L], `start` and `end` [K, L]."""

    transitions: Tensor
    start: Tensor
    end: Tensor


@dataclass(eq=False, kw_only=True)
class StackedCrfEntry(CrfEntry):
    """Rows of all `layers`; `crf` is the first one."""

    layers: Sequence[LinearChainCrf]

    def add_gradient(self, units: Units | None, factors: Tensor | None, views: Views) -> None:
        """Expected minus seen, weighted by record, a member at a time."""
        scale = row_factors(units, factors, self.records)
        blocks = Blocks.of(self.records, self.start.device)
        for name, values in (("start", self.start), ("end", self.end)):
            if self.crf.get_parameter(name).requires_grad:
                blocks.add_columns(views_of(self.layers, name, views), values, scale)
        if self.crf.transitions.requires_grad and self.weight.numel():
            scale = row_factors(units, factors, self.rows)
            weight = self.weight if scale is None else self.weight * scale
            own = Blocks.of(self.rows, weight.device).slices
            places = views_of(self.layers, "transitions", views)
            for view, taken in zip(places, own, strict=True):
                if taken.stop > taken.start:  # a member may have one-token records alone
                    view.add_(self.pairs.sums(None, taken, 1, weight[taken])[0])
                    tags = tuple(tag[taken] for tag in self.tags)
                    view.index_put_(tags, -weight[taken], accumulate=True)


def _statistics(
    emissions: Tensor, scores: _Stacked, layout: StackedTimeMajor
) -> tuple[Tensor, Tensor, StackedPairs]:
    """Log-partition [B] (records in `order`), marginals [T, L], pairs; see `crf_statistics`."""
    num_members, num_tags = scores.start.shape
    forwards, backwards = layout.cells
    top = emissions.max(1, keepdim=True).values
    potentials = (emissions - top).exp_()
    # The padding is 1 everywhere: it is read by nobody, but must stay a number.
    lanes = emissions.new_ones(2 * num_members * layout.num_cells, num_tags)
    lanes.index_copy_(0, forwards, potentials).index_copy_(0, backwards, potentials)
    shift = scores.transitions.amax((1, 2))
    start, end = scores.start.amax(1), scores.end.amax(1)
    factor = (scores.transitions - shift.view(-1, 1, 1)).exp_()
    last = (scores.end - end.unsqueeze(1)).exp_()
    initial = torch.stack([(scores.start - start.unsqueeze(1)).exp_(), last], 1).flatten(0, 1)
    steps = torch.stack([factor, factor.transpose(1, 2)], 1).flatten(0, 1)
    found = messages(lanes.view(2 * num_members, -1, num_tags), initial, steps, layout.grid)
    before, after, sums = (lane.flatten(0, 1) for lane in found)
    after_row = after.index_select(0, forwards)
    member = layout.member
    ending = (after_row.index_select(0, layout.last) * last.index_select(0, member)).sum(1)
    log_partition = ending.log_() + (start + end).index_select(0, member)
    per_row = (sums.index_select(0, forwards).log_() + top).squeeze(1)
    owner = Blocks.of(layout.rows, emissions.device).member.index_select(0, layout.later)
    per_row.index_add_(0, layout.later, shift.index_select(0, owner))
    log_partition.index_add_(0, place_of_record(layout), per_row)
    marginals = after_row * before.index_select(0, backwards)
    total = marginals.sum(1, keepdim=True)
    marginals /= total
    left = (after_row / total).index_select(0, layout.previous)
    right = after.index_select(0, backwards.index_select(0, layout.later))
    return log_partition, marginals, StackedPairs(factor, left, right, owner)


def _path_scores(
    emissions: Tensor, tags: Tensor, scores: _Stacked, layout: StackedTimeMajor, owner: Tensor
) -> Tensor:
    """[B]: as `crf_statistics.path_scores`; `owner` int64[T - B]: member of each later row."""
    token = emissions.gather(1, tags.unsqueeze(1)).squeeze(1)
    moves = scores.transitions[owner, tags[layout.previous], tags[layout.later]]
    token.index_add_(0, layout.later, moves)
    member = layout.member
    total = scores.start[member, tags[layout.first]] + scores.end[member, tags[layout.last]]
    return total.index_add_(0, place_of_record(layout), token)


class _StackedLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        _: Tensor,
        tags: Tensor,
        layer: StackedCrf,
        layout: StackedTimeMajor,
        tape: Tape,
    ) -> Tensor:
        names = ("transitions", "start", "end")
        scores = _Stacked(*(torch.stack(weights_of(layer.layers, name)) for name in names))
        log_partition, marginals, pairs = _statistics(emissions, scores, layout)
        ctx.save_for_backward(marginals, tags)
        ctx.layer = (pairs, layer.layers, layout, tape)
        log_likelihood = _path_scores(emissions, tags, scores, layout, pairs.member)
        return (log_partition - log_likelihood).index_select(0, layout.rank)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        marginals, tags = ctx.saved_tensors
        pairs, layers, layout, tape = ctx.layer
        weight = g.index_select(0, layout.record)
        g_emissions = marginals.clone()
        g_emissions[torch.arange(tags.numel(), device=tags.device), tags] -= 1
        g_emissions *= weight.unsqueeze(1)
        tape.receive(
            StackedCrfEntry(
                layers[0],
                start=g_emissions.index_select(0, layout.first),
                end=g_emissions.index_select(0, layout.last),
                records=layout.first_rows,
                pairs=pairs,
                tags=(tags.index_select(0, layout.previous), tags.index_select(0, layout.later)),
                weight=weight.index_select(0, layout.later),
                rows=layout.later_rows,
                layers=layers,
            )
        )
        return g_emissions, None, None, None, None, None


class StackedCrf(nn.Module):
    """`LinearChainCrf` of several models, all of which `fits`."""

    def __init__(self, layers: Sequence[LinearChainCrf]) -> None:
        super().__init__()
        self.layers = tuple(layers)

    def forward(self, emissions: Tensor, tags: Tensor, layout: TimeMajor) -> Tensor:
        """[B]: negative log-likelihood of each record's tags, in the batch's order."""
        if not isinstance(layout, StackedTimeMajor):
            raise InvalidInput("expected the layout of a stack in a stacked layer, got a plain one")
        return apply(
            _StackedLikelihood, emissions, anchor(self.layers), tags, self, layout, current()
        )

"""The linear-chain CRF (Lafferty et al. 2001) of `pytorch-crf`, over packed rows.

Parameters, their initialisation and the best paths (`CRF.decode`) are that package's,
and so is the definition of the likelihood. The loss of training is one autograd node
here, because `statistics` computes the loss and every gradient in one pass, separate by
record. It is compared with the package's while a trial runs (`LinearChainCrf.train`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence
from torchcrf import CRF

from trainables.dp.layers.crf.statistics import (
    MAX_RANGE,
    Pairs,
    Scores,
    forward_backward,
    path_scores,
    place_of_record,
)
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
from trainables.errors import TrialFailed

_CHUNK = 1 << 22  # numbers of per-unit transition gradients that are held at once
_SHARPER = 8.0  # times, at most, that scores are multiplied by to find the open tags
_TOGETHER = 16  # records, of like length, that are decoded with the same tags
_IN_CACHE = 1 << 16  # sums of (record, tag before, tag) of one call of `CRF.decode`
_COMPARED = 4  # records whose likelihood is compared
_TOLERANCE = 1e-4  # of the scores that a likelihood is a difference of


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
    """A conditional random field over L tags (Lafferty et al. 2001): `transitions` [L,
    L] (from, to), `start_transitions` and `end_transitions` [L], in nats. Likelihoods,
    marginals and best paths are computed over packed records without padding, and their
    gradients recorded by record; the first batch of each epoch is compared with
    `pytorch-crf`, whose class this is.
    """

    _is_due = True

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

    def train(self, mode: bool = True) -> LinearChainCrf:
        """As `Module.train`. The first batch of losses after a change of mode, so one in
        each epoch of a trial, is compared with the likelihood of `pytorch-crf`.
        """
        self._is_due |= mode != self.training
        super().train(mode)
        return self

    def forward(self, emissions: Tensor, tags: Tensor, layout: TimeMajor) -> Tensor:
        """[B]: negative log-likelihood of each record's tags, in the batch's order.

        `emissions` [T, L] and `tags` int64[T] are in the time-major order of `layout`.

        Raises: TrialFailed where a likelihood is not that of `pytorch-crf`.
        """
        if is_plain():
            padded = (pad_sequence(_by_record(v, layout)) for v in (emissions, tags))
            found: Tensor = super().forward(
                *padded, mask=_mask(layout), reduction="none"
            )
            return -found
        losses = apply(
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
        if self._is_due:
            self._is_due = False
            self._compare(losses.detach(), emissions.detach(), tags, layout)
        return losses

    def _compare(
        self, losses: Tensor, emissions: Tensor, tags: Tensor, layout: TimeMajor
    ) -> None:
        """Hold some of the `losses` [B] to the package's likelihood in float64."""
        some = slice(None, None, -(-layout.num_records // _COMPARED))
        rows, gold = (
            pad_sequence(_by_record(v, layout)[some]) for v in (emissions, tags)
        )
        rows, mask = rows.double(), _mask(layout, some)
        crf = _crf_of(self.scores).double()
        expected = -crf(rows, gold, mask=mask, reduction="none")
        size = 1 + expected.abs() + rows.abs().amax(2).sum(0)
        is_right = (losses[some] - expected).abs() <= _TOLERANCE * size
        if not bool((is_right | ~expected.isfinite()).all()):
            raise TrialFailed(
                "the CRF's losses are not those of pytorch-crf; expected a difference"
                f" of at most {_TOLERANCE:g} of their scores. Report it with the"
                " versions of torch and pytorch-crf"
            )

    @torch.no_grad()
    def best_paths(self, emissions: Tensor, layout: TimeMajor) -> tuple[Tensor, Tensor]:
        """The best tags int64[T], time-major, by `CRF.decode`, and their unnormalised
        scores [B] in the batch's order.

        `decode` tries the tags that can be on the best path of some record, which are
        few of a hundred. The posterior of a path is at most the marginal of each of its
        tags, so a tag whose marginal is below the posterior of any known path is not on
        the best one. Scores are multiplied by a factor before, as far as exponential
        space allows: the best path stays, and its posterior nears 1. A factor of e is
        left for rounding.
        """
        parts = torch.cat([each.flatten() for each in vars(self.scores).values()])
        factor = 0.9 * MAX_RANGE / (parts.max() - parts.min())
        factor = factor.clamp(1, _SHARPER)
        sharp = Scores(*(factor * each for each in vars(self.scores).values()))
        found = forward_backward(factor * emissions, sharp, layout)
        known = path_scores(
            factor * emissions, found.marginals.argmax(1), sharp, layout
        )
        least = (known - found.log_partition - 1).exp()[place_of_record(layout)]
        is_open = ~(found.marginals < least.unsqueeze(1))
        # On a GPU `decode` would wait for each tag of each path.
        rows, opened = (_by_record(v.cpu(), layout) for v in (emissions, is_open))
        scores = Scores(*(v.cpu() for v in vars(self.scores).values()))
        paths: dict[int, Tensor] = {}
        order = layout.order.tolist()
        for alike in _runs(order, _TOGETHER):
            tags = torch.cat([opened[i] for i in alike]).any(0).nonzero().squeeze(1)
            crf = _crf_of(scores, tags)
            for some in _runs(alike, max(1, _IN_CACHE // len(tags) ** 2)):
                own = [rows[i].index_select(1, tags) for i in some]
                there = [torch.ones(len(each), dtype=torch.bool) for each in own]
                decoded = crf.decode(pad_sequence(own), pad_sequence(there))
                for record, path in zip(some, decoded, strict=True):
                    paths[record] = tags[torch.tensor(path)]
        packed = torch.cat([paths[i] for i in range(len(order))]).to(emissions.device)
        best = packed.index_select(0, layout.source)
        of_best = path_scores(emissions, best, self.scores, layout)
        return best, of_best.index_select(0, layout.rank)


def _runs(records: list[int], size: int) -> Iterator[list[int]]:
    for low in range(0, len(records), size):
        yield records[low : low + size]


def _by_record(values: Tensor, layout: TimeMajor) -> list[Tensor]:
    """Time-major `values` [T, .] -> those of each record, in the batch's order."""
    place = layout.place.to(values.device)
    lengths = torch.bincount(layout.record).tolist()
    return list(torch.split(values.index_select(0, place), lengths))


def _mask(layout: TimeMajor, some: slice = slice(None)) -> Tensor:
    """bool[longest, records]: the tokens of `some` of the records, as `CRF` wants it."""
    there = torch.ones_like(layout.record, dtype=torch.bool)
    return pad_sequence(_by_record(there, layout)[some])


def _crf_of(scores: Scores, tags: Tensor | None = None) -> CRF:
    """A `CRF` of the package with copies of `scores`, of all or of some `tags`."""
    start, end, transitions = scores.start, scores.end, scores.transitions
    if tags is not None:
        start, end, transitions = start[tags], end[tags], transitions[tags][:, tags]
    with torch.device("meta"):  # it draws no random number
        crf = CRF(len(start))
    own = {
        "start_transitions": start,
        "end_transitions": end,
        "transitions": transitions,
    }
    crf.load_state_dict(own, assign=True)
    return crf

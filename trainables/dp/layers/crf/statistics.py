"""Forward-backward for a linear-chain CRF: log-partition, token marginals, pair
posteriors.

It works in exponential space with every row rescaled to sum 1, alpha and beta advancing
together over the records that still have a token, one batched product of two a step
(Rabiner 1989, scaled).

Range. A path lost to float32 underflow (e^-87 of its row) may regain at most e^R a step
against the paths that were kept, where R is the range of the finite transition, start
and end scores, and one more R where it was lost: while 2 R < 70 what is lost stays
below float32's rounding.

Where transitions are forbidden, as by the BIO rules, R is the range of the others, and
a lost path may regain more: all that was kept may lead nowhere. It regains at most the
inverse of the mass that was kept, the product of the rescaling sums of its record, so
results count while that mass is above e^-`MOST_LOST`. In all other cases the same
quantities are computed in log space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from trainables.dp.layers.packing import TimeMajor, time_major

MAX_RANGE = 30.0  # nats
MOST_LOST = 40.0  # nats
_FORBIDDEN = 1_000.0  # nats below the best: nothing in float32


@dataclass(frozen=True, eq=False)
class Scores:
    """A CRF's parameters: `transitions` [L, L] (from, to), `start` and `end` [L], in
    nats.
    """

    transitions: Tensor
    start: Tensor
    end: Tensor


@dataclass(frozen=True, eq=False)
class Pairs(ABC):
    """Posterior of (tag before, tag) for each of the T - B rows that have a row before:
    `steps` [L, L] from one tag to the next, and of each row `left` and `right` [T - B,
    L].
    """

    steps: Tensor
    left: Tensor
    right: Tensor

    @abstractmethod
    def sums(
        self, order: Tensor | None, taken: slice, number: int, weight: Tensor
    ) -> Tensor:
        """[number, L, L]: weighted sums over `number` equal runs of rows.

        The rows are regrouped by `order` (None: unchanged), then `taken`; `weight` is
        per row.
        """

    def without(self, dropped: Tensor) -> Self:
        """The same with rows of 0 where `dropped` [T - B] is True."""
        left, right = (
            v.masked_fill(dropped.unsqueeze(1), 0.0) for v in (self.left, self.right)
        )
        return replace(self, left=left, right=right)


class ProductPairs(Pairs):
    """Row r's posterior is `steps * outer(left[r], right[r])`."""

    def sums(
        self, order: Tensor | None, taken: slice, number: int, weight: Tensor
    ) -> Tensor:
        """One batched product."""
        rows = taken if order is None else order[taken]
        left, right = self.left[rows], self.right[rows]
        left = (left * weight.unsqueeze(1)).view(number, -1, left.shape[1])
        return (
            left.transpose(1, 2)
            .bmm(right.view(number, -1, right.shape[1]))
            .mul_(self.steps)
        )


class LogPairs(Pairs):
    """Row r's posterior is the softmax of `left[r, i] + steps[i, j] + right[r, j]`."""

    def sums(
        self, order: Tensor | None, taken: slice, number: int, weight: Tensor
    ) -> Tensor:
        """Row by row: slow, and safe at any range."""
        width = self.left.shape[1]
        rows = torch.arange(self.left.shape[0], device=self.left.device)
        rows = (rows if order is None else order)[taken].view(number, -1)
        total = self.left.new_zeros(number, width, width)
        for step, weights in zip(
            rows.unbind(1), weight.view(number, -1).unbind(1), strict=True
        ):
            joint = (
                self.left[step].unsqueeze(2)
                + self.steps
                + self.right[step].unsqueeze(1)
            )
            posterior = joint.flatten(1).softmax(1).view_as(joint)
            total += posterior * weights.view(-1, 1, 1)
        return total


@dataclass(frozen=True, eq=False)
class Statistics:
    """The results of forward-backward, rows in time-major order.

    `log_partition` [B], records in the layout's `order`; `marginals` [T, L].
    """

    log_partition: Tensor
    marginals: Tensor
    pairs: Pairs


def path_scores(
    emissions: Tensor, tags: Tensor, scores: Scores, layout: TimeMajor
) -> Tensor:
    """The unnormalised log-score, in nats, of each record's path of `tags` int64[T]:
    the sum of its `emissions` [T, L] and of the transition `scores` along it. Both are
    in the time-major order of `layout`. Returns [B], records in the layout's `order`;
    less the log-partition it is the path's log-probability.
    """
    token = emissions.gather(1, tags.unsqueeze(1)).squeeze(1)
    token[layout.num_records :] += scores.transitions[
        tags[layout.previous], tags[layout.num_records :]
    ]
    total = scores.start[tags[: layout.num_records]] + scores.end[tags[layout.last]]
    return total.index_add_(0, place_of_record(layout), token)


def place_of_record(layout: TimeMajor) -> Tensor:
    """[T]: place in the layout's `order` of each row's record."""
    return layout.rank.index_select(0, layout.record)


def forward_backward(
    emissions: Tensor, scores: Scores, layout: TimeMajor, *, by_scores: bool = False
) -> Statistics:
    """All statistics of packed `emissions` [T, L]; exact to float32 rounding.

    A record whose emissions are not finite has statistics that are not finite; others
    keep theirs. `by_scores`: which space is used depends on the scores alone, as
    training wants it, and not on the record of the batch that loses most.
    """
    if within_range(scores):
        return _exponential(emissions, scores, layout)[0]
    if by_scores:
        return _logarithmic(emissions, scores, layout)
    allowed = _without_forbidden(scores)
    if within_range(allowed, but_forbidden=True):
        found, kept = _exponential(emissions, allowed, layout)
        lost = ~(kept >= -MOST_LOST)  # and NaN
        if bool(lost.any()):
            found = _with_lost(found, lost, emissions, scores, layout)
        return found
    return _logarithmic(emissions, scores, layout)


def _with_lost(
    found: Statistics,
    lost: Tensor,
    emissions: Tensor,
    scores: Scores,
    layout: TimeMajor,
) -> Statistics:
    """`found`, of exponential space, with those records computed in log space that are
    `lost` bool[B], in the layout's `order`.
    """
    place = place_of_record(layout)
    is_lost = lost.index_select(0, place)
    # Some records of a time-major batch are in time-major order themselves.
    lengths = torch.bincount(place, minlength=layout.num_records)[lost]
    own = _logarithmic(emissions[is_lost], scores, time_major(lengths))
    found.log_partition[lost] = own.log_partition
    found.marginals[is_lost] = own.marginals
    left, right = found.pairs.left.log(), found.pairs.right.log()
    is_later = is_lost[layout.num_records :]
    left[is_later], right[is_later] = own.pairs.left, own.pairs.right
    return replace(found, pairs=LogPairs(scores.transitions, left, right))


def within_range(scores: Scores, *, but_forbidden: bool = False) -> bool:
    """Whether exponential space is exact for these scores (see the module).

    `but_forbidden`: scores of minus infinity do not count.
    """
    parts = torch.cat([scores.transitions.flatten(), scores.start, scores.end])
    high, low = parts.max(), parts.min()
    if but_forbidden:
        low = parts.where(parts > -torch.inf, torch.inf).min()
    # One number is read from the device; without any finite score it is -inf - inf.
    return bool(high - low <= MAX_RANGE)


def _without_forbidden(scores: Scores) -> Scores:
    """Scores that no path takes become minus infinity."""
    return Scores(
        *(
            values.masked_fill(values < values.max() - _FORBIDDEN, -torch.inf)
            for values in (scores.transitions, scores.start, scores.end)
        )
    )


def _exponential(
    emissions: Tensor, scores: Scores, layout: TimeMajor
) -> tuple[Statistics, Tensor]:
    """Also [B], in nats, at most 0: the smaller mass of a record that either direction
    kept.
    """
    num = layout.num_records
    top = emissions.max(1, keepdim=True).values
    potentials = (emissions - top).exp_()
    both = torch.stack([potentials, potentials.index_select(0, layout.reverse)])
    shift, start, end = (
        v.max() for v in (scores.transitions, scores.start, scores.end)
    )
    factor = (scores.transitions - shift).exp_()
    steps = torch.stack([factor, factor.t()])
    initial = torch.stack([(scores.start - start).exp_(), (scores.end - end).exp_()])
    before, after, sums = messages(both, initial, steps, layout)
    ending = (after[0].index_select(0, layout.last) * initial[1]).sum(1)
    log_partition = ending.log_() + start + end
    per_row = sums[0].log() + top
    per_row[num:] += shift
    log_partition.index_add_(0, place_of_record(layout), per_row.squeeze(1))
    marginals = after[0] * before[1].index_select(0, layout.reverse)
    total = marginals.sum(1, keepdim=True)
    marginals /= total
    left = (after[0] / total).index_select(0, layout.previous)
    right = after[1].index_select(0, layout.reverse[num:])
    lost = sums.log().clamp_(max=0.0).squeeze(2)
    kept = torch.zeros_like(sums[:, :num, 0]).index_add_(
        1, place_of_record(layout), lost
    )
    found = Statistics(log_partition, marginals, ProductPairs(factor, left, right))
    return found, kept.min(0).values


def messages(
    potentials: Tensor, initial: Tensor, steps: Tensor, layout: TimeMajor
) -> tuple[Tensor, Tensor, Tensor]:
    """The recurrences of M directions over `potentials` [M, T, L]: messages before a
    row's own potential, the same with it and rescaled to sum 1, and those sums [M, T,
    1].

    `initial` [M, L] is the message to the first row of each record, `steps` [M, L, L]
    from one row to the next.
    """
    before, after = torch.empty_like(potentials), torch.empty_like(potentials)
    sums = potentials.new_empty(*potentials.shape[:2], 1)
    before[:, : layout.num_records] = initial.unsqueeze(1)
    earlier = 0
    for size, first in zip(layout.sizes, layout.starts, strict=True):
        rows = slice(first, first + size)
        message = before[:, rows]
        if first:
            torch.bmm(after[:, earlier : earlier + size], steps, out=message)
        belief = after[:, rows]
        torch.mul(message, potentials[:, rows], out=belief)
        torch.sum(belief, 2, keepdim=True, out=sums[:, rows])
        belief /= sums[:, rows]
        earlier = first
    return before, after, sums


def _logarithmic(emissions: Tensor, scores: Scores, layout: TimeMajor) -> Statistics:
    num = layout.num_records
    backwards = emissions.index_select(0, layout.reverse)
    both = torch.stack([emissions, backwards])
    steps = torch.stack([scores.transitions, scores.transitions.t()])
    before, after = torch.empty_like(both), torch.empty_like(both)
    before[0, :num], before[1, :num] = scores.start, scores.end
    earlier = 0
    for size, first in zip(layout.sizes, layout.starts, strict=True):
        rows = slice(first, first + size)
        if first:
            state = after[:, earlier : earlier + size]
            before[:, rows] = torch.logsumexp(
                state.unsqueeze(3) + steps.unsqueeze(1), 2
            )
        after[:, rows] = before[:, rows] + both[:, rows]
        earlier = first
    log_partition = torch.logsumexp(
        after[0].index_select(0, layout.last) + scores.end, 1
    )
    joint = after[0] + before[1].index_select(0, layout.reverse)
    marginals = joint.softmax(1)
    alpha = after[0].index_select(0, layout.previous)
    beta = after[1].index_select(0, layout.reverse[num:])
    return Statistics(
        log_partition, marginals, LogPairs(scores.transitions, alpha, beta)
    )

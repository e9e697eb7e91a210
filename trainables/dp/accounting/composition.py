"""What releases on the same records cost together, each under a key. Pure, without disk
or clock.

Sums of the releases' Rényi divergences and of their squared means bound the total. They
are kept as whole numbers, which add and subtract without rounding, so that one epoch
more costs an addition, whatever came before, and what is taken out leaves no trace.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from trainables.dp.accounting import renyi
from trainables.dp.accounting.certification import Certificate, Effort, certify
from trainables.dp.accounting.gaussian import gaussian_epsilon, mu_of
from trainables.dp.accounting.releases import Parts, Release, Training
from trainables.errors import InvalidInput

_SCALE = 2.0**40  # parts of 1, to which a cost is rounded up
_INFINITE = 1 << 2_000  # above any sum of finite costs
_LARGEST = 1e200
_ROUNDING = 1 + 1e-9  # of what is computed from sums
_SAMPLED_COUPLES = ("add_or_remove_one", "couple")


@dataclass(frozen=True, kw_only=True)
class RdpFilter:
    """A total budget, fixed beforehand, for trials with adaptively chosen settings
    (Feldman & Zrnic 2021, Theorem 3.1: Rényi divergences of one fixed order add up to a
    filter).

    Its `budget` of divergence at `order` is within (`epsilon`, `delta`): releases fit
    while the sum of their `cost` is at most the budget (`Account`).
    """

    epsilon: float
    delta: float
    order: float
    budget: float

    @staticmethod
    def of(epsilon: float, *, delta: float) -> RdpFilter:
        """The filter that keeps everything it admits within (epsilon, delta).

        Raises: InvalidInput where no order has room for anything.
        """
        rooms = {
            order: _room(order, epsilon, delta)
            for order in renyi.ORDERS
            if order > 1.01
        }
        order = max(rooms, key=lambda each: rooms[each] / each)
        if rooms[order] <= 0:
            raise InvalidInput(
                f"expected a budget with room for a trial, got epsilon={epsilon} at"
                f" delta={delta}"
            )
        return RdpFilter(epsilon=epsilon, delta=delta, order=order, budget=rooms[order])

    @property
    def is_sound(self) -> bool:
        """Whether its budget is that of its epsilon and delta, or less."""
        in_range = self.order > 1 and 0 < self.delta < 1
        return in_range and self.budget <= _room(
            self.order, self.epsilon, self.delta
        ) * (1 + 1e-9)

    def cost(self, what: Release) -> float:
        """The divergence of a release at the order of the filter; for couples of
        records that of one record replaced, which holds however later trials couple
        them (`certify`).
        """
        # At orders near 1 the series of a sampled Gaussian may not converge, which
        # counts as infinite. The divergence grows with the order: that of a larger one
        # bounds it.
        if (what.neighboring_relation, what.unit) == _SAMPLED_COUPLES:
            orders = (
                self.order,
                *(order for order in renyi.ORDERS if order > self.order),
            )
            divergences = renyi.curve(what, orders)
            return float(min(renyi.replace_one_divergences(divergences, orders)))
        orders = (
            self.order,
            *(order for order in renyi.FEW_ORDERS if order > self.order),
        )
        return float(min(renyi.curve(what, orders)))


def _room(order: float, epsilon: float, delta: float) -> float:
    """The divergence at `order` whose conversion is `epsilon` (Canonne et al. 2020,
    Prop. 12).
    """
    return epsilon - math.log1p(-1 / order) + math.log(delta * order) / (order - 1)


class Account:
    """The releases so far, each under a key: another one under a key replaces it, None
    removes it.

    With a `filter_` they may depend on each other's results, and their total is the
    filter's. `delta` is the smallest that any was put at. Not for several threads.
    """

    def __init__(self, filter_: RdpFilter | None = None) -> None:
        self.filter = filter_
        self.delta = 1.0
        self._releases: dict[Hashable, Release] = {}
        self._equal: Counter[Release] = Counter()
        self._kinds: Counter[Any] = Counter()
        self._sums = np.zeros(len(renyi.FEW_ORDERS) + 2, dtype=object)

    def put(self, key: Hashable, what: Release | None, *, delta: float) -> None:
        """Have a release under its key."""
        self._put({key: what})
        self.delta = min(self.delta, delta)

    def num_beside(self, keys: Mapping[Hashable, Any]) -> int:
        """The number of releases under other keys."""
        return sum(key not in keys for key in self._releases)

    def over(
        self,
        limit: float,
        more: Mapping[Any, Release | None],
        *,
        delta: float,
        exact: bool = False,
    ) -> Certificate | None:
        """The total, as if `more` had been put at `delta`, where it exceeds `limit`;
        else None. `exact` asks `certify` with more effort before it says so.
        """
        at, before = (
            min(self.delta, delta),
            {key: self._releases.get(key) for key in more},
        )
        self._put(more)
        try:
            if self.filter is None and self.bound(delta=at) <= limit:
                return None
            found = self.total(delta=at)
            if exact and found.epsilon > limit:
                found = self.total(delta=at, effort="exact")
        finally:
            self._put(before)
        return found if found.epsilon > limit else None

    def bound(self, *, delta: float) -> float:
        """An upper bound of the total, in microseconds; infinite where units of privacy
        or neighbouring relations are mixed, and for several releases of couples, whose
        total is for one record replaced.

        >>> Account().bound(delta=1e-5)
        0.0
        """
        if not self._kinds:
            return 0.0
        if len(self._kinds) > 1 or self._kinds[_SAMPLED_COUPLES] > 1:
            return math.inf
        *divergences, square, _ = (
            math.inf if whole >= _INFINITE else whole / _SCALE * _ROUNDING
            for whole in self._sums
        )
        return min(
            renyi.to_epsilon(
                np.array(divergences), delta=delta, orders=renyi.FEW_ORDERS
            ),
            gaussian_epsilon(math.sqrt(square), delta),
        )

    def total(
        self, *, delta: float | None = None, effort: Effort = "total"
    ) -> Certificate:
        """What `certify` gives for all at `delta`, by default the account's own. With a
        filter: its epsilon at its delta, or infinity where its budget is exceeded or
        relations or units are mixed.
        """
        if self.filter is None:
            few = [
                each
                for what, count in self._equal.items()
                for each in _repeat(what, count)
            ]
            return certify(
                few, delta=self.delta if delta is None else delta, effort=effort
            )
        kinds = sorted(self._kinds)
        mixed = (
            f"filter: expected trials of one neighboring_relation and one unit, got"
            f" {kinds}",
        )
        is_held = len(kinds) <= 1 and self._sums[-1] <= self.filter.budget * _SCALE
        return Certificate(
            epsilon=self.filter.epsilon if is_held else math.inf,
            delta=self.filter.delta,
            accountant=f"rdp filter, order {self.filter.order:g}",
            tight=False,
            neighboring_relation=next(iter(self._equal)).neighboring_relation
            if kinds
            else None,
            num_releases=len(self._releases),
            unaccounted=mixed if len(kinds) > 1 else (),
        )

    def _put(self, changes: Mapping[Any, Release | None]) -> None:
        for key, after in changes.items():
            for what, times in ((self._releases.pop(key, None), -1), (after, 1)):
                if what is None:
                    continue
                self._sums = self._sums + times * _costs(what, self.filter)
                _count(self._equal, what, times)
                _count(self._kinds, (what.neighboring_relation, what.unit), times)
            if after is not None:
                self._releases[key] = after


def _count(counts: Counter[Any], what: Hashable, times: int) -> None:
    counts[what] += times
    if not counts[what]:
        del counts[what]


@lru_cache(maxsize=16_384)
def _costs(what: Release, filter_: RdpFilter | None) -> Any:
    """What adds up: divergences at a few orders, the square of the mean of one Gaussian
    mechanism at most as private, and the cost in the filter; in parts of 1, read-only
    because shared.
    """
    found = [
        *renyi.curve(what, renyi.FEW_ORDERS),
        _square_of_mu(what),
        0.0 if filter_ is None else filter_.cost(what),
    ]
    parts = [
        math.ceil(cost * _SCALE) if cost < _LARGEST else _INFINITE for cost in found
    ]
    return renyi.read_only(np.array(parts, dtype=object))


def _square_of_mu(what: Release) -> float:
    """The square of the mean of one Gaussian mechanism at most as private; infinite
    where there is none. Of parts the larger.
    """
    if what.reasons or not isinstance(what, Training | Parts):
        return math.inf
    parts = [what] if isinstance(what, Training) else [what.training, what.held_out]
    known = [each.everything for each in parts if isinstance(each, Training)]
    return max(mu_of(steps) ** 2 for steps in known)


def _repeat(what: Release, count: int) -> list[Release]:
    """Few releases with the composition of `count` equal ones. A selection is known by
    its divergences, which steps cannot represent; how many trials of couples there are
    decides their neighbouring relation.
    """
    if isinstance(what, Parts) and isinstance(what.training, Training):
        training, held_out = (_times(p, count) for p in (what.training, what.held_out))
        return [replace(what, training=training, held_out=held_out)]
    if not isinstance(what, Training) or what.unit == "couple":
        return [what] * count
    return [_times(what, count)]


def _times(what: Training, count: int) -> Training:
    steps = tuple(replace(step, count=count * step.count) for step in what.steps)
    beside = tuple(replace(step, count=count * step.count) for step in what.beside)
    return replace(what, steps=steps, beside=beside)

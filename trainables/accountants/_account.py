"""What releases on the same records cost together, each under a key. Pure, without disk or clock.

Sums of the releases' Rényi divergences and of their squared means bound the total. They are kept as
whole numbers, which add and subtract without rounding, so that one epoch more costs an addition,
whatever came before, and what is taken out leaves no trace.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from trainables.accountants import _renyi
from trainables.accountants._composition import RdpFilter, SweepSpend, epsilon_sweep
from trainables.accountants._gauss import composed_mu, gaussian_epsilon
from trainables.accountants._release import Release

_SCALE = 2.0**40  # parts of 1, to which a cost is rounded up
_INFINITE = 1 << 2_000  # above any sum of finite costs
_LARGEST = 1e200
_ROUNDING = 1 + 1e-9  # of what is computed from sums
_SAMPLED_COUPLES = ("add_or_remove_one", "couple")


class Account:
    """The releases so far, each under a key: another one under a key replaces it, None removes it.

    With a `filter_` they may depend on each other's results, and their total is the filter's.
    `delta` is the smallest that any was put at. Not for several threads.
    """

    def __init__(self, filter_: RdpFilter | None = None) -> None:
        self.filter = filter_
        self.delta = 1.0
        self._releases: dict[Hashable, Release] = {}
        self._equal: Counter[Any] = Counter()
        self._kinds: Counter[Any] = Counter()
        self._sums = np.zeros(len(_renyi.FEW_ORDERS) + 2, dtype=object)

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
    ) -> SweepSpend | None:
        """The total, as if `more` had been put at `delta`, where it exceeds `limit`; else None.
        `exact` asks `epsilon_sweep` twice before it says so.
        """
        at, before = min(self.delta, delta), {key: self._releases.get(key) for key in more}
        self._put(more)
        try:
            if self.filter is None and self.bound(delta=at) <= limit:
                return None
            spend = self.total(delta=at)
            if exact and spend.epsilon > limit:
                spend = self.total(delta=at, exact=True)
        finally:
            self._put(before)
        return spend if spend.epsilon > limit else None

    def bound(self, *, delta: float) -> float:
        """An upper bound of the total, in microseconds; infinite where units of privacy or
        neighbouring relations are mixed, and for several releases of couples, whose total is for
        one record replaced.

        >>> Account().bound(delta=1e-5)
        0.0
        """
        if not self._kinds:
            return 0.0
        if len(self._kinds) > 1 or self._kinds[_SAMPLED_COUPLES] > 1:
            return math.inf
        *divergences, square, _ = (
            math.inf if whole >= _INFINITE else whole / _SCALE * _ROUNDING for whole in self._sums
        )
        return min(
            _renyi.to_epsilon(np.array(divergences), delta=delta, orders=_renyi.FEW_ORDERS),
            gaussian_epsilon(math.sqrt(square), delta),
        )

    def total(self, *, delta: float | None = None, exact: bool = False) -> SweepSpend:
        """The composition (`epsilon_sweep`) at `delta`, by default the account's own. With a
        filter: its epsilon at its delta, or infinity where its budget is exceeded or relations or
        units are mixed.
        """
        if self.filter is None:
            few = [each for what, count in self._equal.items() for each in _repeat(what, count)]
            return epsilon_sweep(few, delta=self.delta if delta is None else delta, exact=exact)
        kinds = sorted(self._kinds)
        mixed = (f"filter: expected trials of one neighboring_relation and one unit, got {kinds}",)
        is_held = len(kinds) <= 1 and self._sums[-1] <= self.filter.budget * _SCALE
        return SweepSpend(
            epsilon=self.filter.epsilon if is_held else math.inf,
            delta=self.filter.delta,
            accountant=f"rdp filter, order {self.filter.order:g}",
            tight=False,
            neighboring_relation=next(iter(self._equal)).neighboring_relation if kinds else None,
            num_releases=len(self._releases),
            unaccounted=mixed if len(kinds) > 1 else (),
        )

    def _put(self, changes: Mapping[Any, Release | None]) -> None:
        for key, after in changes.items():
            for what, times in ((self._releases.pop(key, None), -1), (after, 1)):
                if what is None:
                    continue
                self._sums = self._sums + times * _costs(what, self.filter)
                kind = what.neighboring_relation, what.unit
                for counts, counted in ((self._equal, what), (self._kinds, kind)):
                    counts[counted] += times
                    if not counts[counted]:
                        del counts[counted]
            if after is not None:
                self._releases[key] = after


@lru_cache(maxsize=16_384)
def _costs(what: Release, filter_: RdpFilter | None) -> Any:
    """What adds up: divergences at a few orders, the square of the mean of one Gaussian mechanism
    at most as private, and the cost in the filter; in parts of 1, read-only because shared.
    """
    known = what.is_finite and what.best_of is None
    found = [
        *_renyi.curve(what, _renyi.FEW_ORDERS),
        composed_mu(what.everything) ** 2 if known else math.inf,
        0.0 if filter_ is None else filter_.cost(what),
    ]
    parts = [math.ceil(cost * _SCALE) if cost < _LARGEST else _INFINITE for cost in found]
    costs = np.array(parts, dtype=object)
    costs.setflags(write=False)
    return costs


def _repeat(what: Release, count: int) -> list[Release]:
    """Few releases with the composition of `count` equal ones. A selection is known by its
    divergences, which phases cannot represent; how many trials of couples there are decides their
    neighbouring relation.
    """
    if what.best_of is not None or what.unit == "couple":
        return [what] * count
    phases, beside = (
        tuple((sigma, count * times) for sigma, times in each)
        for each in (what.phases, what.unsampled)
    )
    return [replace(what, phases=phases, unsampled=beside)]

"""The total budget of a sweep's trials, `budget.total`. Pure.

It holds by composition, or, where trials are chosen or stopped by earlier results, by a privacy
filter (`sweep.spending.filter`). Exempt baselines are never passed to it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from sweep.spending.composition import Composition
from sweep.spending.filter import admits
from trainables import formats
from trainables.accountants import Release, epsilon_sweep
from trainables.errors import CannotAnalyze
from trainables.privacy.rounding import format_epsilon

if TYPE_CHECKING:
    from trainables.accountants import RdpFilter


class TotalBudget:
    """At most epsilon `limit` for all releases, each of which has a key; `filter_` where the
    releases depend on earlier results. A reason calls a release by its `noun`.
    """

    def __init__(
        self, limit: float, *, filter_: RdpFilter | None = None, noun: str = "attempt"
    ) -> None:
        self._limit = limit
        self._noun = noun
        self._filter = filter_
        self._composition = Composition()
        self._charged: set[Hashable] = set()
        self._costs: dict[Hashable, float] = {}  # of each release at the order of the filter
        self._delta = 1.0

    def charge(self, key: Hashable, what: Release, *, delta: float) -> None:
        """Count a release instead of the one with the same key."""
        self._composition.put(key, what)
        self._charged.add(key)
        self._delta = min(self._delta, delta)
        if self._filter is not None:
            self._costs[key] = self._filter.cost(what)

    def refusal(self, key: Hashable, what: Release, *, delta: float) -> str | None:
        """The reason why a release may not be charged, or None."""
        at = min(self._delta, delta)
        if self._filter is None:
            if self._composition.bound(key, what).epsilon(delta=at) <= self._limit:
                return None
            return self._over(self._composition.releases(key, what), at, self._beside(key))
        together = self._composition.releases(key, what)
        if len({(each.neighboring_relation, each.unit) for each in together}) > 1:
            return self.refusal_of(together, delta=delta)
        others = math.fsum(cost for charged, cost in self._costs.items() if charged != key)
        fits = others + self._filter.cost(what) <= self._filter.budget
        return None if fits else f"{self._no_room()} {self._beside(key)} (filter)"

    def refusal_of(self, releases: Iterable[Release], *, delta: float) -> str | None:
        """The reason why the releases, which must include the charged ones, do not fit, or None."""
        given = list(releases)
        if self._filter is None:
            every = Composition(given).releases()
            return self._over(every, min(self._delta, delta), "of all trials")
        try:
            return None if admits(self._filter, given) else f"{self._no_room()} (filter)"
        except CannotAnalyze as problem:
            return str(problem)

    def _over(self, releases: Iterable[Release], delta: float, beside: str) -> str | None:
        together = epsilon_sweep(releases, delta=delta).epsilon
        if together <= self._limit:
            return None
        return f"epsilon {format_epsilon(together)} {beside} exceeds budget.total={self._limit:g}"

    def _beside(self, key: Hashable) -> str:
        others = len(self._charged) - (key in self._charged)
        return f"with the {formats.count(others, self._noun)} before it" if others else "alone"

    def _no_room(self) -> str:
        return f"budget.total={self._limit:g} has no room for it"

"""Composition of several trials on the same records under one neighbouring relation, and a
privacy filter for adaptive searches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from trainables.accountants import _renyi, pld
from trainables.accountants._choose import best, one_gaussian
from trainables.accountants._gauss import (
    Term,
    composed_mu,
    gaussian_epsilon,
    participation_epsilon,
    terms_of,
)
from trainables.accountants._release import Release, merge_phases
from trainables.errors import InvalidInput
from trainables.sections import NeighboringRelation

MIXED_UNITS = (
    "groups (privacy.unit) and single records are composed: no theorem covers a record that is"
    " replaced by one of another group"
)
_FEW, _MANY = 16, 60  # distributions that a quick and an exact composition may cost


@dataclass(frozen=True, kw_only=True)
class SweepSpend:
    """The composition of `num_releases` releases on the same records.

    `epsilon` is `math.inf` where anything is unaccounted for; `neighboring_relation` is None for
    no release at all. `tight` is False for an upper bound.
    """

    epsilon: float
    delta: float
    accountant: str
    tight: bool
    neighboring_relation: NeighboringRelation | None
    num_releases: int
    unaccounted: tuple[str, ...] = ()


def epsilon_sweep(releases: Iterable[Release], *, delta: float, exact: bool = False) -> SweepSpend:
    """The composition of all releases, however their settings were chosen beforehand.

    Shuffled trials alone: exact, replace-one. Poisson and allocated trials alone: add-or-remove.
    Both: under replace-one, which a sampled trial also has (each of its two records moves the sum)
    while a shuffled trial has no add-or-remove guarantee. A selection (`Release.best_of`) is known
    by its Rényi divergences alone, and so is then everything beside it. Couples of records, alone
    or beside records: for one record replaced, as that replaces its couple and nothing else,
    however often the records are coupled anew. Groups beside records: infinite, because a record
    that is replaced may carry another group's key: two groups change (docs/guides/privacy.md).
    `exact` composes more loss distributions before it settles for an upper bound.

    Raises: InvalidInput unless 0 < delta < 1.
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"expected 0 < delta < 1, got delta={delta}")
    given = [what for what in releases if not what.is_nothing]
    groups = _merge_equal(given)
    shuffled = any(what.sampling == "shuffle" for what in groups)
    sampled = any(what.sampling != "shuffle" for what in groups)
    units = {what.unit for what in given}
    replaced = shuffled or ("couple" in units and len(given) > 1)
    relation: NeighboringRelation | None = "replace_one" if replaced else None
    if sampled and not replaced:
        relation = "add_or_remove_one"
    reasons = tuple(dict.fromkeys(reason for what in given for reason in what.unaccounted))
    if "group" in units and len(units) > 1:
        reasons = (*reasons, MIXED_UNITS)
    if reasons or not all(what.is_finite for what in groups):
        reasons = reasons or ("the noise decays to nothing (noise_decay)",)
        value, name, tight = math.inf, "gaussian" if shuffled else "pld", True
    elif any(what.best_of is not None for what in given):
        value, name, tight = _by_divergences(groups, delta, replace_one=replaced), "rdp", False
    elif not sampled:
        phases = merge_phases(phase for what in groups for phase in what.everything)
        value, name, tight = gaussian_epsilon(composed_mu(phases), delta), "gaussian", True
    else:
        value, name, tight = _sampled_epsilon(groups, delta, replace_one=replaced, exact=exact)
    return SweepSpend(
        epsilon=value,
        delta=delta,
        accountant=name,
        tight=tight,
        neighboring_relation=relation,
        num_releases=len(given),
        unaccounted=reasons,
    )


@dataclass(frozen=True, kw_only=True)
class RdpFilter:
    """A total budget, fixed beforehand, for trials with adaptively chosen settings
    (Feldman & Zrnic 2021, Theorem 3.1: Rényi divergences of one fixed order add up to a filter).

    Its `budget` of divergence at `order` is within (`epsilon`, `delta`): releases fit while the sum
    of their `cost` is at most the budget (`Account`).
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
        rooms = {order: _room(order, epsilon, delta) for order in _renyi.ORDERS if order > 1.01}
        order = max(rooms, key=lambda each: rooms[each] / each)
        if rooms[order] <= 0:
            raise InvalidInput(
                f"expected a budget with room for a trial, got epsilon={epsilon} at delta={delta}"
            )
        return RdpFilter(epsilon=epsilon, delta=delta, order=order, budget=rooms[order])

    @property
    def is_sound(self) -> bool:
        """Whether its budget is that of its epsilon and delta, or less."""
        in_range = self.order > 1 and 0 < self.delta < 1
        return in_range and self.budget <= _room(self.order, self.epsilon, self.delta) * (1 + 1e-9)

    def cost(self, what: Release) -> float:
        """The divergence of a release at the order of the filter; for couples of records that of
        one record replaced, which holds however later trials couple them (`epsilon_sweep`).
        """
        # At orders near 1 the series of a sampled Gaussian may not converge, which counts as
        # infinite. The divergence grows with the order: that of a larger one bounds it.
        if what.unit == "couple" and what.neighboring_relation != "replace_one":
            orders = (self.order, *(order for order in _renyi.ORDERS if order > self.order))
            divergences = _renyi.curve(what, orders)
            return float(min(_renyi.replace_one_divergences(divergences, orders)))
        orders = (self.order, *(order for order in _renyi.FEW_ORDERS if order > self.order))
        return float(min(_renyi.curve(what, orders)))


def _room(order: float, epsilon: float, delta: float) -> float:
    """The divergence at `order` whose conversion is `epsilon` (Canonne et al. 2020, Prop. 12)."""
    return epsilon - math.log1p(-1 / order) + math.log(delta * order) / (order - 1)


def _merge_equal(releases: Sequence[Release]) -> list[Release]:
    """Releases of equal sampling merged, so that equal phases are composed once."""
    groups: dict[tuple[str, float], list[Release]] = {}
    for what in releases:
        if what.best_of is None:
            groups.setdefault((what.sampling, what.sample_rate), []).append(what)
    together = [
        replace(
            alike[0],
            phases=merge_phases(phase for what in alike for phase in what.phases),
            unsampled=merge_phases(phase for what in alike for phase in what.unsampled),
        )
        for _, alike in sorted(groups.items())
    ]
    return [*together, *(what for what in releases if what.best_of is not None)]


def _by_divergences(groups: Sequence[Release], delta: float, *, replace_one: bool) -> float:
    """Epsilon of groups of which one at least is a selection, by adding Rényi divergences."""
    total = np.zeros(len(_renyi.ORDERS))
    for what in groups:
        divergences = _renyi.curve(what)
        if replace_one and what.neighboring_relation != "replace_one":
            divergences = _renyi.replace_one_divergences(divergences)
        total = total + divergences
    return _renyi.to_epsilon(total, delta=delta)


def _sampled_epsilon(
    groups: list[Release], delta: float, *, replace_one: bool, exact: bool
) -> tuple[float, str, bool]:
    """(epsilon, accountant, tight) of groups of which one at least is sampled or allocated."""
    terms: list[Term] = []
    for what in groups:
        shift = 2.0 if replace_one and what.sampling != "shuffle" else 1.0
        terms += terms_of(what, shift=shift)
    found = {"gaussian": participation_epsilon(terms, delta=delta)}
    if any(what.sampling == "random_allocation" for what in groups):
        found["rdp"] = _by_divergences(groups, delta, replace_one=replace_one)
        name = min(found, key=lambda each: found[each])
        return found[name], name, False
    num_distributions = sum(len(what.phases) + len(what.unsampled) for what in groups)
    few = num_distributions <= _FEW
    affordable = few or (exact and num_distributions <= _MANY)
    if affordable and len(groups) == 1 and not replace_one:  # one longer trial
        value, name, tight = best(groups[0], delta=delta, effort="exact" if exact else "running")
        return value, name, tight and exact
    if affordable and found["gaussian"] <= pld.DEAR_EPSILON:
        parts = [one_gaussian(what) for what in groups]
        points = pld.FINE if exact and few else pld.QUICK
        interval = pld.interval_of(parts, found["gaussian"], points)
        found["pld"] = _pld(parts, interval, delta, replace_one=replace_one)
    elif not replace_one:  # the library has no Rényi divergence of Poisson under replace-one
        total = sum(_renyi.curve(what, _renyi.FEW_ORDERS) for what in groups)
        found["rdp"] = _renyi.to_epsilon(np.asarray(total), delta=delta, orders=_renyi.FEW_ORDERS)
    name = min(found, key=lambda each: found[each])
    return found[name], name, name == "pld" and exact


def _pld(groups: list[Release], interval: float, delta: float, *, replace_one: bool) -> float:
    def distribution_of(factor: float) -> Any:
        parts = [_distribution(what.quieter(factor), interval, replace_one) for what in groups]
        return reduce(lambda whole, part: whole.compose(part), parts)

    left = delta - sum(pld.rounding(what) for what in groups)
    return pld.least_finite(distribution_of, delta=left) if left > 0 else math.inf


def _distribution(what: Release, interval: float, replace_one: bool) -> Any:
    # The noise of a shuffled release already holds the distance between the two data sets: an
    # unsampled Gaussian under the library's add-or-remove convention.
    return pld.distribution(what, interval, replace_one and what.sampling == "poisson")

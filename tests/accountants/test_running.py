"""Bounds that are merged, and totals that no finite epsilon holds for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from _mechanisms import poisson, shuffled

from trainables.accountants import Release, RunningBound, epsilon_sweep

_DELTA = 1e-5


def bound(*releases: Release) -> RunningBound:
    made = RunningBound()
    for what in releases:
        made.add(what)
    return made


def merged(one: RunningBound, other: RunningBound) -> float:
    one.merge(other)
    return one.epsilon(delta=_DELTA)


def test_two_bounds_together_are_the_bound_of_all_their_releases() -> None:
    """As the ledger merges those of data sets that share records."""
    some, others = [poisson(4.0, steps=9)] * 2, [poisson(3.0, steps=7), poisson(5.0, steps=5)]
    together = bound(*some, *others).epsilon(delta=_DELTA)
    assert merged(bound(*some), bound(*others)) == pytest.approx(together, rel=1e-6)
    assert together > max(bound(*part).epsilon(delta=_DELTA) for part in (some, others))


@pytest.mark.parametrize("unit", ["record", "group", "couple"])
@pytest.mark.parametrize("other", ["record", "group", "couple"])
def test_merging_hides_no_mixture_of_units(unit: str, other: str) -> None:
    one, two = replace(poisson(4.0), unit=unit), replace(poisson(4.0), unit=other)
    apart = unit == other != "couple"
    assert math.isfinite(merged(bound(one), bound(two))) == apart
    assert math.isinf(merged(bound(shuffled(9.0)), bound(poisson(4.0)))), "relations differ"
    endless = replace(poisson(4.0), unaccounted=("a reason",))
    assert math.isinf(merged(bound(poisson(4.0)), bound(endless)))


def test_an_infinite_total_says_why() -> None:
    silent = replace(poisson(4.0), phases=((0.0, 3),))
    for releases in ([silent], [poisson(4.0), silent]):
        found = epsilon_sweep(releases, delta=_DELTA)
        assert math.isinf(found.epsilon)
        assert found.unaccounted == ("the noise decays to nothing (noise_decay)",)


def test_what_is_infinite_stays_so_until_it_is_taken_out() -> None:
    finite, endless = poisson(4.0), replace(poisson(4.0), unaccounted=("a reason",))
    made = bound(endless, finite, endless, finite)
    for left in (1, 0):
        assert math.isinf(made.epsilon(delta=_DELTA)), "whatever came after it"
        made.add(endless, times=-1)
        assert math.isinf(made.epsilon(delta=_DELTA)) == (left > 0)

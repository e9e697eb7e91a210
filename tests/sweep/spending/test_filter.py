"""The spend of a sweep that depends on results: its filter's budget, or infinity
without one.
"""

import math
from dataclasses import replace

import dp_accounting as dp
import pytest
from dp_accounting.rdp import compute_epsilon

from sweep.spending.filter import UNFILTERED, filter_of, looks_at_results, total_of
from tests.accountants._mechanisms import histogram, mechanism, poisson, shuffled
from tests.accountants.outside import composed, divergence, sampled
from tests.sweep.sweeps import space_in
from trainables.dp.accounting.composition import Account, RdpFilter
from trainables.dp.accounting.releases import release
from trainables.errors import InvalidInput

DELTA = 1e-5
TPE = {"strategy": "tpe", "num_samples": 4, "objectives": ["epsilon"]}


def trial(**privacy):
    made = mechanism(
        "dp_sgd", epochs=4, **{"noise_multiplier": 4.0, "delta": DELTA, **privacy}
    )
    return release(made)


def space(place, *, total=None, **changes):
    budget = {} if total is None else {"budget": {"total": total}}
    return space_in(place, base={"engine": "dp_sgd"}, **budget, **changes)


def test_only_what_looks_at_results_under_a_total_has_a_filter(tmp_path):
    grid, adaptive = space(tmp_path, total=3.0), space(tmp_path, total=3.0, search=TPE)
    stopping = {"strategy": "random", "num_samples": 3, "scheduler": "asha"}
    spaces = (grid, adaptive, space(tmp_path, total=3.0, search=stopping))
    assert [looks_at_results(each) for each in spaces] == [False, True, True]
    assert filter_of(grid, DELTA) is None
    assert filter_of(space(tmp_path, search=TPE), None) is None
    kept = filter_of(adaptive, DELTA)
    assert (kept.epsilon, kept.delta) == (3.0, DELTA)
    assert compute_epsilon([kept.order], [kept.budget], DELTA)[0] == pytest.approx(
        3.0, rel=1e-9
    )
    with pytest.raises(InvalidInput):
        filter_of(adaptive, None)


@pytest.mark.parametrize("parts", [1, 4, 25])
@pytest.mark.parametrize(("total", "mu"), [(8.0, 1.568), (3.0, 0.670), (1.0, 0.247)])
def test_a_filter_has_the_room_that_was_worked_out_elsewhere(
    tmp_path, total, mu, parts
):
    """At delta 1e-5, as the largest mu of Gaussian mechanisms: in `parts` of equal size
    they fit up to it, to the last digit that is known, and not above it.
    """
    kept = RdpFilter.of(total, delta=DELTA)
    adaptive = space(tmp_path, total=total, search=TPE)
    assert math.sqrt(2 * kept.budget / kept.order) == pytest.approx(mu, abs=5e-4)
    for at, fits in ((mu - 5e-4, True), (mu + 5e-4, False)):
        parts_of = [shuffled(math.sqrt(parts) / at, epochs=1)] * parts
        assert (
            math.isfinite(total_of(adaptive, parts_of, delta=DELTA, kept=kept).epsilon)
            == fits
        )
        made = Account(kept)
        for number, part in enumerate(parts_of[1:]):
            made.put(number, part, delta=DELTA)
        assert (made.over(total, {"last": parts_of[0]}, delta=DELTA) is None) == fits


@pytest.mark.parametrize(("total", "delta"), [(0.5, 1e-8), (3.0, DELTA), (20.0, 1e-3)])
def test_a_release_costs_a_filter_the_librarys_divergence(total, delta):
    """What stands beside its steps is a part of it."""
    kept = RdpFilter.of(total, delta=delta)
    steps = sampled(4.0, rate=0.05, steps=300)
    what = poisson(4.0, rate=0.05, steps=300)
    assert kept.cost(what) == pytest.approx(
        divergence(steps, order=kept.order), rel=1e-9
    )
    beside = divergence(steps, dp.GaussianDpEvent(30.0), order=kept.order)
    assert kept.cost(replace(what, beside=histogram(30.0))) == pytest.approx(
        beside, rel=1e-9
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": 2.9}, {"epsilon": 2.0}, {"delta": 1e-9}, {"delta": 0.0}, {"delta": 1.0},
        {"order": 1.0}, {"order": math.nan}, {"budget": math.inf},
    ],
)  # fmt: skip
def test_a_filter_with_more_room_than_its_epsilon_has_is_not_sound(changes):
    kept = RdpFilter.of(3.0, delta=DELTA)
    assert kept.is_sound
    assert replace(kept, budget=kept.budget / 2).is_sound
    assert not replace(kept, **changes).is_sound


def test_the_total_of_a_search_is_its_budget_while_that_holds(tmp_path):
    adaptive = space(tmp_path, total=3.0, search=TPE)
    kept = RdpFilter.of(3.0, delta=DELTA)
    within = total_of(adaptive, [trial()] * 2, delta=1e-7, kept=kept)
    assert within.delta == DELTA, "that of the filter"
    assert (within.epsilon, within.unaccounted, within.num_releases) == (3.0, (), 2)
    assert within.accountant.startswith("rdp filter, order ")
    passed = total_of(adaptive, [trial()] * 100, delta=DELTA, kept=kept)
    assert (passed.epsilon, passed.unaccounted) == (math.inf, (UNFILTERED,))
    mixed = total_of(
        adaptive, [trial(), trial(sampling="shuffle")], delta=DELTA, kept=kept
    )
    assert math.isinf(mixed.epsilon)
    assert "one neighboring_relation and one unit" in mixed.unaccounted[0]
    without = total_of(
        space(tmp_path, search=TPE), [trial()] * 2, delta=DELTA, kept=None
    )
    assert (without.epsilon, without.accountant) == (math.inf, "none")
    assert without.unaccounted == (UNFILTERED,)
    assert total_of(adaptive, [], delta=DELTA, kept=kept).epsilon == 0.0
    plain = total_of(space(tmp_path, total=3.0), [trial()] * 2, delta=DELTA, kept=None)
    assert plain.accountant != "none"
    assert plain.epsilon <= composed([trial()] * 2, delta=DELTA) * (1 + 1e-9)
    gaussians = total_of(
        space(tmp_path, total=3.0), [trial(sampling="full")] * 2, delta=DELTA, kept=None
    )
    assert gaussians.epsilon == pytest.approx(
        composed([trial(sampling="full")] * 2, delta=DELTA)
    )

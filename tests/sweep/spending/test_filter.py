"""The spend of a sweep that depends on results: its filter's budget, or infinity without one."""

import math
from dataclasses import replace

import pytest

from sweep.spending.filter import UNFILTERED, filter_of, looks_at_results, total_of
from tests.accountants._mechanisms import mechanism
from tests.sweep.sweeps import space_in
from trainables.accountants import RdpFilter, certify, release
from trainables.errors import InvalidInput

DELTA = 1e-5
TPE = {"strategy": "tpe", "num_samples": 4, "objectives": ["epsilon"]}


def trial(**privacy):
    made = mechanism("dp_sgd", epochs=4, **{"noise_multiplier": 4.0, "delta": DELTA, **privacy})
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
    assert filter_of(adaptive, DELTA) == RdpFilter.of(3.0, delta=DELTA)
    with pytest.raises(InvalidInput):
        filter_of(adaptive, None)


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
    mixed = total_of(adaptive, [trial(), trial(sampling="shuffle")], delta=DELTA, kept=kept)
    assert math.isinf(mixed.epsilon)
    assert "one neighboring_relation and one unit" in mixed.unaccounted[0]
    without = total_of(space(tmp_path, search=TPE), [trial()] * 2, delta=DELTA, kept=None)
    assert (without.epsilon, without.accountant) == (math.inf, "none")
    assert without.unaccounted == (UNFILTERED,)
    assert total_of(adaptive, [], delta=DELTA, kept=kept).epsilon == 0.0
    plain = total_of(space(tmp_path, total=3.0), [trial()] * 2, delta=DELTA, kept=None)
    assert plain == certify([trial()] * 2, delta=DELTA, effort="total")

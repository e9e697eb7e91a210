"""One account of releases: its bound is never below its total, its total is the
composition, and what was admitted in whatever order never composes above its budget.
Where `composed` is called, the composition is that of `dp_accounting`, called here and
not through the code under test.
"""

import math
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import dp_accounting as dp
import pytest
from dp_accounting.rdp import compute_epsilon
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweep.spending.gate import total_refusal
from sweep.spending.ledger import FILE, Entry, Ledger
from tests.accountants import _mechanisms as mechanisms
from tests.accountants.outside import (
    composed,
    counted,
    divergence,
    events_of,
    gaussian_epsilon,
    pld_epsilon,
    rdp_epsilon,
)
from tests.refusals import refused
from trainables.dp.accounting import composition as account_module
from trainables.dp.accounting import renyi
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.composition import Account, RdpFilter
from trainables.dp.accounting.releases import (
    BestOf,
    Gaussian,
    Number,
    Release,
    Sampled,
    Unaccounted,
)

DELTA = 1e-5
TEN = Number(law="geometric", mean=10)
_few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
_DELTAS = (1e-3, 1e-5, 1e-8)
shuffled = partial(mechanisms.shuffled, epochs=1)
sampled = partial(mechanisms.poisson, rate=0.05, steps=100)
COUPLE = sampled(4.0, rate=0.025, steps=160, unit="couple")
ENDLESS = Unaccounted(reasons=("a reason",), neighboring_relation="add_or_remove_one")
_shuffled = st.builds(
    shuffled, st.sampled_from([3.0, 6.0, 11.0, 40.0]), epochs=st.integers(1, 4)
)
_sampled = st.builds(
    sampled,
    st.sampled_from([1.0, 2.0, 9.0]),
    rate=st.sampled_from([0.01, 0.05, 1.0]),
    steps=st.integers(1, 9),
    beside=st.sampled_from([(), (Gaussian(sigma=30.0),)]),
)
_any = st.one_of(_shuffled, _sampled)
# What is charged under each key, in order; a later charge of a key replaces the earlier
# one.
_charges = st.one_of(
    *(
        st.lists(st.tuples(st.integers(0, 40), kind), min_size=15, max_size=40)
        for kind in (_shuffled, _sampled)
    )
)


def account(*releases, filter_=None):
    made = Account(filter_)
    for number, what in enumerate(releases):
        made.put(number, what, delta=DELTA)
    return made


@settings(max_examples=20, deadline=None)
@given(st.lists(_any, min_size=1, max_size=6), st.data(), st.sampled_from((1e-5, 1e-3)))
def test_an_account_follows_what_comes_and_goes(releases, data, delta):
    """Its total is that of all its releases, its bound not below, and what goes leaves
    no trace.
    """
    made = account(*releases)
    bound, exact = (
        made.bound(delta=delta),
        made.total(delta=delta, effort="exact").epsilon,
    )
    assert bound >= exact * (1 - 1e-12)
    whole = certify(releases, delta=delta, effort="total").epsilon
    assert made.total(delta=delta).epsilon == pytest.approx(whole, rel=1e-9)
    out = data.draw(st.integers(0, len(releases) - 1))
    left = [what for number, what in enumerate(releases) if number != out]
    rest = certify(left, delta=DELTA, effort="total").epsilon
    assert made.over(-1.0, {out: None}, delta=DELTA).epsilon == pytest.approx(
        rest, rel=1e-9
    )
    assert math.isinf(made.over(1e9, {"new": ENDLESS}, delta=delta).epsilon)
    assert made.total(delta=delta).epsilon == pytest.approx(whole, rel=1e-9), (
        "it was only asked"
    )
    for other in (ENDLESS, shuffled(3.0, unit="group"), None):
        made.put("new", other, delta=DELTA)
        assert made.bound(delta=delta) == (math.inf if other else bound)
    for number in range(1, len(releases)):
        made.put(number, None, delta=DELTA)
    assert made.bound(delta=delta) == account(releases[0]).bound(delta=delta)
    assert made.num_beside({0: None}) == 0 < made.num_beside({1: None})


@_few
@given(_any, st.floats(-12, 0), st.booleans())
def test_a_release_that_is_taken_out_does_not_hide_the_others(
    kept, log_noise, is_selection
):
    """However large it was: the sum was nearly all its own."""
    dear = sampled(10.0**log_noise)
    made = account(kept)
    made.put(
        "dear",
        BestOf(number=TEN, configurations=(dear,)) if is_selection else dear,
        delta=DELTA,
    )
    made.put("dear", None, delta=DELTA)
    assert made.bound(delta=DELTA) == account(kept).bound(delta=DELTA)


@_few
@given(_any, st.sampled_from((1e-5, 1e-3)))
def test_the_bound_of_one_release_is_its_renyi_epsilon_or_that_of_a_gaussian(
    what, delta
):
    few = renyi.FEW_ORDERS
    by_orders = renyi.to_epsilon(renyi.curve(what, few), delta=delta, orders=few)
    whole = tuple(Gaussian(sigma=step.sigma, count=step.count) for step in what.steps)
    if not what.beside:
        expected = min(by_orders, composed([replace(what, steps=whole)], delta=delta))
        assert account(what).bound(delta=delta) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("delta", _DELTAS)
def test_the_bound_and_the_total_are_those_of_every_part(delta):
    """Of Gaussian mechanisms the closed form, what stands beside the steps included; of
    sampled steps no less than the library's Rényi divergences allow, and little more.
    """
    beside = (Gaussian(sigma=5.0, count=2),)
    made = account(shuffled(3.0, epochs=4), replace(shuffled(9.0), beside=beside))
    exact = gaussian_epsilon(*[3.0] * 4, 9.0, 5.0, 5.0, delta=delta)
    assert made.bound(delta=delta) == pytest.approx(exact, rel=1e-6)
    assert made.total(delta=delta).epsilon == pytest.approx(exact, rel=1e-9)
    releases = [sampled(2.0), sampled(2.0, beside=beside), sampled(2.0, beside=beside)]
    by_library = rdp_epsilon(*events_of(releases), delta=delta)
    assert by_library <= account(*releases).bound(delta=delta) <= 1.02 * by_library
    exact = pld_epsilon(*events_of(releases), delta=delta, interval=1e-3)
    assert account(*releases).total(delta=delta).epsilon == pytest.approx(
        exact, rel=1e-2
    )


def test_what_the_bound_permits_is_not_composed(monkeypatch):
    """A charge costs an addition, however long the history is."""
    made = account(*[shuffled(3.0)] * 50)
    monkeypatch.setattr(account_module, "certify", None)
    exact = composed([shuffled(3.0)] * 51, delta=DELTA)
    assert made.over(exact * (1 + 1e-6), {"new": shuffled(3.0)}, delta=1.0) is None
    with pytest.raises(TypeError):
        made.over(exact * (1 - 1e-6), {"new": shuffled(3.0)}, delta=1.0)


@pytest.mark.parametrize("unit", ["record", "group", "couple"])
@pytest.mark.parametrize("other", ["record", "group", "couple"])
def test_no_bound_hides_a_mixture_of_units(unit, other):
    both = account(sampled(4.0, unit=unit), sampled(4.0, unit=other))
    assert math.isfinite(both.bound(delta=DELTA)) == (unit == other != "couple")
    assert math.isinf(account(shuffled(9.0), sampled(4.0)).bound(delta=DELTA)), (
        "relations differ"
    )


def test_what_is_infinite_stays_so_until_it_is_taken_out():
    made = account(ENDLESS, sampled(4.0), ENDLESS, sampled(4.0))
    for number in (0, 2):
        assert math.isinf(made.bound(delta=DELTA)), "whatever came after it"
        made.put(number, None, delta=DELTA)
    assert math.isfinite(made.bound(delta=DELTA))
    silent = sampled(0.0)
    for releases in ([silent], [sampled(4.0), silent]):
        assert account(*releases).total().unaccounted == (
            "the noise decays to nothing (noise_decay)",
        )


@_few
@given(_charges, st.floats(1.0, 5.0), st.sampled_from(_DELTAS))
def test_a_filter_admits_no_more_than_its_total(charges, total, delta):
    kept = RdpFilter.of(total, delta=delta)
    assert compute_epsilon([kept.order], [kept.budget], delta)[0] == pytest.approx(
        total, rel=1e-9
    )
    made, admitted = Account(kept), dict[int, Release]()
    for key, what in charges:
        together = {**admitted, key: what}
        refused = made.over(total, {key: what}, delta=delta) is not None
        costs = (
            divergence(*events_of([each]), order=kept.order)
            for each in together.values()
        )
        assert refused == (sum(costs) > kept.budget)
        assert refused == (Account(kept).over(total, together, delta=delta) is not None)
        if not refused:
            made.put(key, what, delta=delta)
            admitted = together
    assert composed(admitted.values(), delta=delta) <= total * (1 + 1e-9)


@_few
@given(_charges, st.floats(1.0, 5.0), st.data())
def test_a_total_admits_no_more_than_it_is_at_the_smallest_delta(charges, total, data):
    made, admitted = Account(), dict[int, Release]()
    smallest = 1.0
    for key, what in charges:
        delta = data.draw(st.sampled_from(_DELTAS))
        if made.over(total, {key: what}, delta=delta) is None:
            made.put(key, what, delta=delta)
            admitted[key] = what
            smallest = min(smallest, delta)
    above = composed(admitted.values(), delta=smallest)
    if above > total * (1 + 1e-9):  # the code may know a tighter bound than Rényi's
        assert any(
            isinstance(step, Sampled)
            for what in admitted.values()
            for step in what.steps
        )
        assert least(admitted.values(), delta=smallest) <= total * (1 + 1e-6)


def least(releases, *, delta):
    """A lower estimate of epsilon of sampled releases, by privacy loss
    distributions.
    """
    pld = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    for event, count in counted(releases).items():
        pld.compose(event, count)
    return 0.98 * float(pld.get_epsilon(delta))


def test_a_filter_adds_all_costs_and_says_why_it_refuses():
    """One that adds the dearest other cost instead of all admits every one of fifty."""
    what, made = shuffled(3.0), Account(RdpFilter.of(3.0, delta=DELTA))

    def refusal(key, release):
        return total_refusal(made, 3.0, {key: release}, delta=DELTA, noun="attempt")

    room = math.floor(made.filter.budget / made.filter.cost(what))
    assert room > 2, "of two others the larger may pass for their sum"
    for number in range(room):
        assert refusal(number, what) is None
        made.put(number, shuffled(9.0), delta=DELTA)
        made.put(number, what, delta=DELTA)  # in the place of the cheaper one
    assert (
        composed([what] * room, delta=DELTA) <= 3.0 < composed([what] * 50, delta=DELTA)
    )
    assert refusal("more", what) == (
        f"budget.total=3 has no room for it with the {room} attempts before it (filter)"
    )
    assert refusal(0, what) is None, "it takes its own place"
    mixed = "expected trials of one neighboring_relation and one unit"
    assert mixed in str(refusal("group", replace(what, unit="group")))


# ---- couples: totals are for one record replaced, in every way that they are computed,
# because two trials may couple the records differently, and one couple less is not one
# couple less twice


def test_totals_of_couples_are_for_one_record_replaced(tmp_path):
    both = certify([COUPLE, COUPLE], delta=DELTA)
    assert both.neighboring_relation == "replace_one"
    single = replace(COUPLE, unit="record")
    limit = (both.epsilon + certify([single] * 2, delta=DELTA).epsilon) / 2
    made = account(COUPLE)
    assert math.isfinite(made.bound(delta=DELTA))
    found = made.over(limit, {"second": COUPLE}, delta=DELTA, exact=True)
    assert found == both, "no room for a second trial"
    made.put("second", COUPLE, delta=DELTA)
    assert made.bound(delta=DELTA) >= both.epsilon
    ledger = Ledger(tmp_path / FILE)
    first, second = (
        Entry(
            dataset="ab" * 32,
            sweep="synthesis",
            trial=trial,
            epochs=4,
            delta=DELTA,
            release=COUPLE,
        )
        for trial in ("first", "second")
    )
    assert ledger.charge(first, budget_total=limit) is None
    assert "exceeds --budget-total" in str(ledger.charge(second, budget_total=limit))
    with refused("expected the data set's total epsilon to stay within"):
        ledger.require_within(first.dataset, [COUPLE], budget_total=limit, delta=DELTA)
    kept = RdpFilter.of(both.epsilon, delta=DELTA)
    most = max(
        n
        for n in range(20)
        if math.isfinite(account(*[COUPLE] * n, filter_=kept).total().epsilon)
    )
    assert most >= 1
    assert certify([COUPLE] * most, delta=DELTA, effort="total").epsilon <= both.epsilon
    assert math.isfinite(account(*[single] * (most + 1), filter_=kept).total().epsilon)


@_few
@given(st.data(), st.floats(0.5, 6.0))
def test_data_sets_that_share_records_stay_within_one_total(data, total):
    """Several sweeps with deltas of their own, renamed while they run, on three data
    sets, two of which share a record; the ledger is opened anew at will.
    """
    with tempfile.TemporaryDirectory() as place:
        ledger = Ledger(Path(place) / FILE)
        for name, records in (
            ("aaa", [b"1", b"2"]),
            ("bbb", [b"2", b"3"]),
            ("ccc", [b"4"]),
        ):
            ledger.key.register(name, records)
        admitted = {"aaa": {}, "bbb": {}, "ccc": {}}
        for _ in range(data.draw(st.integers(5, 30))):
            dataset, sweep = data.draw(
                st.tuples(st.sampled_from("abc"), st.integers(0, 3))
            )
            trial, what = data.draw(st.tuples(st.integers(0, 5), _shuffled))
            entry = Entry(
                dataset=3 * dataset,
                sweep=f"{data.draw(st.sampled_from(['mine', 'renamed']))}@{sweep}",
                trial=str(trial),
                epochs=what.steps[0].count,
                delta=_DELTAS[sweep % 3],
                release=what,
            )
            if data.draw(st.booleans()):
                ledger = Ledger(Path(place) / FILE)
            before = admitted[entry.dataset].get((sweep, trial))
            if ledger.charge(entry, budget_total=total) is None and (
                before is None or before.epochs < entry.epochs
            ):
                admitted[entry.dataset][sweep, trial] = entry
        for names in (("aaa", "bbb"), ("ccc",)):
            entries = [entry for name in names for entry in admitted[name].values()]
            delta = min((entry.delta for entry in entries), default=1e-5)
            found = composed([entry.release for entry in entries], delta=delta)
            assert found <= total * (1 + 1e-9)
            assert ledger.spend(names[0], delta=delta).total.epsilon == pytest.approx(
                found
            )

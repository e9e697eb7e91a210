"""Whatever is charged in whatever order, what was admitted never composes above its budget. The
composition is that of `dp_accounting`, called here and not through the code under test.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from pathlib import Path

import dp_accounting as dp
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweep.spending.budget import TotalBudget
from sweep.spending.entries import Entry
from sweep.spending.filter import admits
from sweep.spending.ledger import FILE, Ledger
from trainables.accountants import RdpFilter, Release

_few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_DELTAS = (1e-3, 1e-5, 1e-8)
_shuffled = st.builds(
    lambda sigma, epochs: Release(
        phases=((sigma, epochs),),
        sampling="shuffle",
        sample_rate=1.0,
        neighboring_relation="replace_one",
    ),
    st.sampled_from([3.0, 6.0, 11.0, 40.0]),
    st.integers(1, 4),
)
_sampled = st.builds(
    lambda sigma, rate, steps, beside: Release(
        phases=((sigma, steps),),
        unsampled=((30.0, 1),) if beside else (),
        sampling="poisson",
        sample_rate=rate,
        neighboring_relation="add_or_remove_one",
    ),
    st.sampled_from([1.0, 2.0, 9.0]),
    st.sampled_from([0.01, 0.05, 1.0]),
    st.integers(1, 9),
    st.booleans(),
)
# What is charged under each key, in order; a later charge of a key replaces the earlier one.
_charges = st.one_of(
    st.lists(st.tuples(st.integers(0, 40), kind), min_size=15, max_size=40)
    for kind in (_shuffled, _sampled)
)


def composed(releases: Iterable[Release], *, delta: float) -> float:
    """Epsilon of all releases together: exact for Gaussians alone, else by Rényi divergences."""
    given, rdp = list(releases), RdpAccountant()
    mu = 0.0
    for what in given:
        for sigma, count in what.unsampled:
            rdp.compose(dp.GaussianDpEvent(sigma), count)
        for sigma, count in what.phases:
            event = dp.GaussianDpEvent(sigma)
            if what.sample_rate < 1:
                event = dp.PoissonSampledDpEvent(what.sample_rate, event)
            mu += count / sigma**2
            rdp.compose(event, count)
    if not given:
        return 0.0
    if all(what.sampling == "shuffle" for what in given):
        return float(dp.get_epsilon_gaussian(1 / math.sqrt(mu), delta))
    return float(rdp.get_epsilon(delta))


@_few
@given(_charges, st.floats(1.0, 5.0), st.sampled_from(_DELTAS))
def test_a_filter_admits_no_more_than_its_total(
    charges: list[tuple[int, Release]], total: float, delta: float
) -> None:
    kept = RdpFilter.of(total, delta=delta)
    budget, admitted = TotalBudget(total, filter_=kept), dict[int, Release]()
    for key, what in charges:
        together = {**admitted, key: what}
        refused = budget.refusal(key, what, delta=delta) is not None
        assert refused == (not admits(kept, together.values()))
        assert refused == (budget.refusal_of(together.values(), delta=delta) is not None)
        if not refused:
            budget.charge(key, what, delta=delta)
            admitted = together
    assert composed(admitted.values(), delta=delta) <= total * (1 + 1e-9)


@_few
@given(_charges, st.floats(1.0, 5.0), st.data())
def test_a_total_admits_no_more_than_it_is_at_the_smallest_delta(
    charges: list[tuple[int, Release]], total: float, data: st.DataObject
) -> None:
    budget, admitted = TotalBudget(total), dict[int, Release]()
    smallest = 1.0
    for key, what in charges:
        delta = data.draw(st.sampled_from(_DELTAS))
        if budget.refusal(key, what, delta=delta) is None:
            budget.charge(key, what, delta=delta)
            admitted[key] = what
            smallest = min(smallest, delta)
    if admitted and all(what.sampling == "shuffle" for what in admitted.values()):
        assert composed(admitted.values(), delta=smallest) <= total * (1 + 1e-9)
    elif admitted:  # the code may know a tighter bound than Rényi's: the exact one decides
        assert least(admitted.values(), delta=smallest) <= total * (1 + 1e-6)


def least(releases: Iterable[Release], *, delta: float) -> float:
    """A lower estimate of epsilon of sampled releases, by privacy loss distributions."""
    pld = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    for what in releases:
        for sigma, count in what.unsampled:
            pld.compose(dp.GaussianDpEvent(sigma), count)
        for sigma, count in what.phases:
            event = dp.GaussianDpEvent(sigma)
            pld.compose(
                dp.PoissonSampledDpEvent(what.sample_rate, event)
                if what.sample_rate < 1
                else event,
                count,
            )
    return 0.98 * float(pld.get_epsilon(delta))


def test_fifty_releases_do_not_fit_where_the_dearest_other_one_does() -> None:
    """A filter that adds the dearest other cost instead of all admits every one."""
    one = Release(
        phases=((3.0, 1),), sampling="shuffle", sample_rate=1.0, neighboring_relation="replace_one"
    )
    kept = RdpFilter.of(3.0, delta=1e-5)
    budget, admitted = TotalBudget(3.0, filter_=kept), 0
    for key in range(50):
        if budget.refusal(key, one, delta=1e-5) is None:
            budget.charge(key, one, delta=1e-5)
            admitted += 1
    assert 1 < admitted < 50
    assert composed([one] * admitted, delta=1e-5) <= 3.0
    assert composed([one] * 50, delta=1e-5) > 3.0


@_few
@given(st.data(), st.floats(0.5, 6.0))
def test_data_sets_that_share_records_stay_within_one_total(
    data: st.DataObject, total: float
) -> None:
    """Several sweeps with deltas of their own, renamed while they run, on three data sets, two of
    which share a record; the ledger is opened anew at will.
    """
    with tempfile.TemporaryDirectory() as place:
        ledger = Ledger(Path(place) / FILE)
        for name, records in (("aaa", [b"1", b"2"]), ("bbb", [b"2", b"3"]), ("ccc", [b"4"])):
            ledger.register(name, records)
        admitted: dict[str, dict[tuple[int, int], Entry]] = {"aaa": {}, "bbb": {}, "ccc": {}}
        for _ in range(data.draw(st.integers(5, 30))):
            dataset, sweep = data.draw(st.tuples(st.sampled_from("abc"), st.integers(0, 3)))
            trial, what = data.draw(st.tuples(st.integers(0, 5), _shuffled))
            entry = Entry(
                dataset=3 * dataset,
                sweep=f"{data.draw(st.sampled_from(['mine', 'renamed']))}@{sweep}",
                trial=str(trial),
                attempt=1,
                first_epoch=0,
                epochs=what.phases[0][1],
                delta=_DELTAS[sweep % 3],
                release=what,
            )
            if data.draw(st.booleans()):
                ledger = Ledger(Path(place) / FILE)
            before = admitted[entry.dataset].get((sweep, trial))
            if ledger.charge_within(entry, budget_total=total) is None and (
                before is None or before.epochs < entry.epochs
            ):
                admitted[entry.dataset][sweep, trial] = entry
        for names in (("aaa", "bbb"), ("ccc",)):
            entries = [entry for name in names for entry in admitted[name].values()]
            delta = min((entry.delta for entry in entries), default=1e-5)
            found = composed([entry.release for entry in entries], delta=delta)
            assert found <= total * (1 + 1e-9)
            assert ledger.spend(names[0], delta=delta).total.epsilon == pytest.approx(found)

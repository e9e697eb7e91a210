import math
from dataclasses import replace
from typing import get_args

import pytest
from _mechanisms import histogram, mechanism, poisson, sampled, shuffled, training
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from scipy.stats import norm

from tests.accountants.outside import (
    events_of,
    gaussian_epsilon,
    pld_epsilon,
    rdp_epsilon,
)
from tests.refusals import refused
from trainables.dp.accounting.accountants import rdp, selection
from trainables.dp.accounting.certification import MIXED_UNITS, Effort, certify
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.composition import Account, RdpFilter
from trainables.dp.accounting.releases import Number, release
from trainables.errors import CannotAnalyze

_DELTA = 5e-4
TEN = Number(law="geometric", mean=10)


def test_shuffled_trials_compose_exactly():
    """Two trials of 30 epochs are 60 epochs; n trials are one with 1 / sqrt(n) of the
    noise.
    """
    together = certify([shuffled(), shuffled()], delta=_DELTA, effort="total")
    assert together.epsilon == pytest.approx(
        gaussian_epsilon(*[1.0] * 60, delta=_DELTA), rel=1e-9
    )
    assert (together.accountant, together.tight) == ("gaussian", True)
    assert together.neighboring_relation == "replace_one"
    assert together.num_releases == 2
    nine = certify([shuffled(3.0)] * 9, delta=_DELTA, effort="total").epsilon
    assert nine == pytest.approx(gaussian_epsilon(*[1.0] * 30, delta=_DELTA), rel=1e-9)


RARE = poisson(0.8, rate=0.001, steps=100_000)
TARGET_8 = poisson(
    0.6452, rate=4_096 / 450_000, steps=2_500
)  # calibrated to 8 at delta 1e-5


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "what", [RARE, TARGET_8, poisson()], ids=["rare", "target", "plain"]
)
def test_one_trial_composes_to_its_own_epsilon(what, exact):
    """A grid that is coarse beside a step gave 8.27 for a trial of 8, which no budget
    of 8 let run, and 6.5 in place of 2.59 for rare steps.
    """
    alone = certify(what, delta=1e-5, effort="exact" if exact else "running")
    together = certify([what], delta=1e-5, effort="exact" if exact else "total")
    assert (together.epsilon, together.accountant) == (alone.epsilon, alone.accountant)
    assert together.tight == exact
    assert together.epsilon <= 1.001 * certify(what, delta=1e-5).epsilon


def test_what_the_sums_lose_of_delta_counts_in_a_total_too():
    million = [poisson(100.0, rate=rate, steps=10**6) for rate in (0.001, 0.0011)]
    assert math.isfinite(certify(million, delta=1e-7).epsilon)
    assert certify(million, delta=1e-9).accountant != "pld"


@pytest.mark.parametrize("effort", get_args(Effort))
@pytest.mark.parametrize("only", ["gaussian", "rdp", "pld"])
@pytest.mark.parametrize("what", [poisson(steps=200), poisson(2.0, steps=4, rate=0.95)])
def test_every_bound_for_one_record_replaced_is_one(only, effort, what):
    least = certify(what, delta=_DELTA, replace_one=True).epsilon
    assert least > 1.4 * certify(what, delta=_DELTA).epsilon
    found = certify(what, delta=_DELTA, replace_one=True, only=only, effort=effort)
    assert found.epsilon >= least
    assert (found.accountant, found.neighboring_relation) == (only, "replace_one")


def test_nothing_costs_nothing_and_one_open_trial_costs_everything():
    assert certify([], delta=_DELTA, effort="total").epsilon == 0.0
    for only in ("gaussian", "rdp", "pld"):
        found = certify([], delta=_DELTA, only=only)
        assert (found.epsilon, found.accountant) == (0.0, only)
    assert training(sampled(steps=0)) == training()
    nothing = replace(shuffled(), steps=(), unit="group")
    assert certify([poisson(), nothing], delta=_DELTA) == certify(
        poisson(), delta=_DELTA
    )
    spend = certify(
        [shuffled(), release(mechanism("sgd"))], delta=_DELTA, effort="total"
    )
    assert math.isinf(spend.epsilon)
    assert spend.unaccounted == ("no noise is added (sgd)",)
    vanishing = release(mechanism(decay="exponential", tau=200.0))
    assert math.isinf(certify([vanishing], delta=_DELTA, effort="total").epsilon)


@pytest.mark.parametrize(("sigma", "steps"), [(0.04, 10), (0.02, 3)])
def test_a_sampled_trial_with_a_shuffled_one_moves_the_sum_twice(sigma, steps):
    """At rate 1 the composition with a shuffled trial is one Gaussian, of a known
    mu.
    """
    both = certify(
        [poisson(sigma, steps=steps, rate=1.0), shuffled(5.0)],
        delta=_DELTA,
        effort="total",
    )
    mu = math.sqrt(steps * (2 / sigma) ** 2 + 30 / 5.0**2)
    assert both.accountant == "gaussian"
    largest = mu**2 / 2 + mu * norm.isf(
        _DELTA
    )  # whose second term is far below the last digit
    assert both.epsilon == pytest.approx(largest, rel=1e-4)
    sampled = certify(
        [poisson(0.7, steps=10, rate=1.0), shuffled(5.0)], delta=_DELTA, effort="total"
    )
    exact = gaussian_epsilon(*[0.7 / 2] * 10, *[5.0] * 30, delta=_DELTA)
    assert sampled.accountant in ("pld", "gaussian")
    assert sampled.epsilon == pytest.approx(exact, rel=2e-3)


def test_couples_are_composed_for_one_record_replaced():
    """A record that is replaced replaces its couple, so the couple's replace-one
    epsilon holds.
    """
    single = release(mechanism("dp_sgd", noise_multiplier=2.0))
    couple = replace(single, unit="couple")
    mixed = certify([single, couple], delta=1e-5)
    assert mixed.neighboring_relation == "replace_one"
    alike = certify([single, single], delta=1e-5)
    # As much as two releases of one unit cost under replace-one, which is more than
    # add-or-remove.
    assert alike.epsilon < mixed.epsilon < math.inf
    one = account(
        mechanism("dp_sgd", noise_multiplier=2.0), exact=True
    ).epsilon_replace_one
    assert one < mixed.epsilon < 2 * one
    # Two trials may couple the records differently: one couple less is not one couple
    # less twice.
    again = certify([couple, couple], delta=1e-5)
    assert again.neighboring_relation == "replace_one"
    assert again.epsilon == mixed.epsilon
    assert (
        certify([couple], delta=1e-5, effort="total").neighboring_relation
        == "add_or_remove_one"
    )
    with refused("expected 0 < delta < 1, got delta=1"):
        certify([single], delta=1.0, effort="total")


@pytest.mark.parametrize("other", ["record", "couple"])
def test_groups_with_records_have_no_total(other):
    """A replaced record may leave its group for another: two groups change, not one."""
    single = replace(release(mechanism("dp_sgd", noise_multiplier=2.0)), unit=other)
    grouped = replace(single, unit="group")
    for mixed in ([single, grouped], [grouped, grouped, single]):
        spend = certify(mixed, delta=1e-5, effort="total")
        assert math.isinf(spend.epsilon)
        assert spend.unaccounted == (MIXED_UNITS,)
    assert math.isfinite(
        certify([grouped, grouped], delta=1e-5, effort="total").epsilon
    )


def test_equal_releases_of_an_account_are_composed_as_each_by_itself():
    what = replace(poisson(2.0, steps=300), beside=histogram(20.0, count=3))
    made = Account()
    for number in range(4):
        made.put(number, what, delta=1e-5)
    apart = certify([what] * 4, delta=1e-5, effort="total")
    assert made.total().epsilon == pytest.approx(apart.epsilon, rel=1e-12)
    assert apart.epsilon == pytest.approx(
        pld_epsilon(*events_of([what] * 4), delta=1e-5, interval=1e-3), rel=1e-2
    )


def test_an_account_is_at_the_smallest_delta_that_it_was_put_at():
    made = Account()
    assert made.total(delta=0.5).epsilon == 0.0
    for key, what, delta in (
        ("a", poisson(4.0), 1e-4),
        ("b", poisson(4.0), 1e-6),
        ("a", None, 0.1),
    ):
        made.put(key, what, delta=delta)
    assert made.over(-1.0, {}, delta=1e-3).delta == 1e-6
    assert made.over(-1.0, {}, delta=1e-8).delta == 1e-8
    exact = pld_epsilon(*events_of([poisson(4.0)]), delta=1e-6)
    assert (made.total().epsilon, made.total().delta) == (
        pytest.approx(exact, rel=1e-3),
        1e-6,
    )


def test_a_filter_holds_its_budget():
    """Adaptively chosen releases that fit stay within the filter's epsilon."""
    account, taken = Account(RdpFilter.of(8.0, delta=1e-5)), []
    for number, sigma in enumerate((2.0, 1.5, 1.0, 3.0, 1.0, 2.0, 1.0, 1.0, 1.0)):
        trial = poisson(sigma, steps=400)
        if account.over(8.0, {number: trial}, delta=1e-5) is None:
            account.put(number, trial, delta=1e-5)
            taken.append(trial)
    assert len(taken) >= 4
    assert rdp_epsilon(*events_of(taken), delta=1e-5) <= 8.0
    for dear in (poisson(0.4, steps=4_000), release(mechanism("sgd"))):
        assert math.isinf(account.over(8.0, {"dear": dear}, delta=1e-5).epsilon)
    with refused("a budget with room"):
        RdpFilter.of(1e-6, delta=1e-9)


def test_a_filter_of_a_large_total_has_room_for_little_noise():
    """Its order is near 1, where the series of a sampled Gaussian does not converge."""
    room = RdpFilter.of(200.0, delta=1e-5)
    trial = poisson(0.35, steps=116)
    assert room.order < 1.5
    assert room.is_sound
    assert room.cost(trial) <= room.budget
    assert room.cost(trial) < rdp.of_release(trial, delta=1e-5) < 200.0


def test_a_selection_pays_for_the_costliest_configuration():
    both = selection.of_releases([poisson(2.0), poisson()], delta=_DELTA, number=TEN)
    assert both == selection.of_releases([poisson()], delta=_DELTA, number=TEN)
    chosen = RepeatAndSelectDpEvent(*events_of([poisson()]), 10, 1)
    assert both == pytest.approx(rdp_epsilon(chosen, delta=_DELTA), rel=1e-3)
    poisson_count = Number(law="poisson", mean=10)
    assert (
        selection.of_releases([poisson()], delta=_DELTA, number=poisson_count)
        < both + 10
    )
    open_trial = [release(mechanism("dp_sgd", noise_multiplier=0.0))]
    assert math.isinf(selection.of_releases(open_trial, delta=_DELTA, number=TEN))


def test_configurations_of_two_relations_are_refused():
    with refused("one neighboring_relation", CannotAnalyze):
        selection.of_releases([poisson(), shuffled()], delta=_DELTA, number=TEN)

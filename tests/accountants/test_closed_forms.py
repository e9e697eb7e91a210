"""Inner quantities of the accountants against their closed forms, and the ends of their
ranges.
"""

import math
from dataclasses import replace
from unittest import TestCase

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from scipy.stats import norm

from tests.accountants import outside
from tests.accountants._mechanisms import (
    histogram,
    mechanism,
    poisson,
    sampled,
    training,
)
from tests.refusals import refused
from trainables.dp.accounting import calibration, library, pld, renyi
from trainables.dp.accounting.calibration import noise_for
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import epsilon_after
from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.accounting.privacy_semantics import PROFILE_EPSILONS
from trainables.dp.accounting.releases import Gaussian, release
from trainables.errors import CannotAnalyze


@pytest.mark.parametrize("rate", [1.0, 0.5, 1e-4])
def test_the_largest_loss_of_a_step_is_that_of_the_sampled_gaussian(rate):
    """log(1 - q + q e^loss), at 10 standard deviations, where the unsampled one has
    `loss`.
    """
    loss = 0.5 / 20.0**2 + 10 / 20.0
    expected = math.log(1 - rate + rate * math.exp(loss))
    assert pld._largest_loss(sampled(20.0, rate=rate)) == pytest.approx(
        expected, rel=1e-9
    )
    for loss in (499.5, 500.5):  # beyond 500 without the rate
        sigma = 1 / (math.sqrt(100 + 2 * loss) - 10)
        expected = loss + math.log(rate) * (loss < 500)
        assert pld._largest_loss(sampled(sigma, rate=rate)) == pytest.approx(
            expected, rel=1e-12
        )


ONE_OF_A_MILLION = sampled(1.7, steps=10**6, rate=1e-4)
STEPS = (ONE_OF_A_MILLION,)
MILLION = training(ONE_OF_A_MILLION)


def normal_limit(step, delta):
    """Epsilon of the Gaussian mechanism that many small losses tend to: mu^2 is the
    number of steps times q^2 (e^(1 / sigma^2) - 1) (Bu et al. 2020).
    """
    mu = math.sqrt(step.count * step.rate**2 * math.expm1(1 / step.sigma**2))
    return outside.gaussian_epsilon(1 / mu, delta=delta)


@pytest.mark.parametrize("points", [pld.FINE, pld.MEDIUM, pld.QUICK, pld.COARSE])
def test_a_million_rare_steps_are_not_rounded_up_to_the_grid(points):
    """A grid that is coarse beside the loss of one step gave 0.44 to 3.5 in place of
    0.28.
    """
    limit = normal_limit(ONE_OF_A_MILLION, 1e-7)
    found = pld.epsilon_of(STEPS, delta=1e-7, points=points)
    assert limit <= found <= limit * (1.03 if points >= pld.QUICK else 1.07)
    grid = pld.interval(STEPS, delta=1e-7, points=points)
    assert pld._largest_loss(ONE_OF_A_MILLION) / grid < 125_000


@pytest.mark.parametrize("sigma", [0.02, 0.03, 0.049, 0.051, 3.0])
def test_the_typical_loss_is_that_of_order_two(sigma):
    """Of all steps of all releases."""
    what = [sampled(sigma * factor, steps=6, rate=0.5) for factor in (2, 1)]
    what.append(Gaussian(sigma=sigma, count=4))
    order_two = outside.divergence(*outside.events_of([training(*what)]), order=2)
    assert pld.typical_loss(tuple(what)) ** 2 * 16 == pytest.approx(order_two, rel=1e-9)


def test_a_delta_within_the_rounding_of_the_sums_has_no_grid():
    """The sums of a million steps lose about 4e-10 of the mass."""
    assert math.isinf(pld.epsilon_of(STEPS, delta=1e-9, points=pld.QUICK))
    found = certify(MILLION, delta=1e-9)
    assert (found.accountant, found.tight) == ("rdp", False)
    grid = pld.interval(STEPS, delta=1e-7, points=pld.QUICK)
    removed, added = pld.distribution(STEPS, grid, False)
    assert abs(1 - removed.masses.sum()) < pld.rounding(STEPS)
    assert 1 - added.masses.sum() < pld.rounding(STEPS)  # on this grid it is rounded up
    assert pld.rounding(STEPS) == pytest.approx(1e-9)


def test_a_profile_bears_the_rounding_of_the_sums_at_each_epsilon():
    grid = pld.interval(STEPS, delta=1e-7, points=pld.QUICK)
    one = from_gaussian_mechanism(
        ONE_OF_A_MILLION.sigma,
        value_discretization_interval=grid,
        sampling_prob=ONE_OF_A_MILLION.rate,
    )
    whole = one.self_compose(ONE_OF_A_MILLION.count)
    found = library.profile(STEPS, grid=grid, epsilons=PROFILE_EPSILONS)
    assert sum(1e-8 < delta < 1 for _, delta in found) > 3
    for epsilon, delta in found:
        lost = delta - float(whole.get_delta_for_epsilon(epsilon))
        assert delta == 1 or lost == pytest.approx(pld.rounding(STEPS), rel=1e-3)


def delta_at(whole, epsilon):
    """Delta of a distribution: the mean of 1 - e^(epsilon - loss) over losses above
    epsilon.
    """
    found = []
    for each in whole:
        losses = (each.lowest + np.arange(len(each.masses))) * each.grid
        above = losses > epsilon
        found.append(
            each.infinite - np.expm1(epsilon - losses[above]) @ each.masses[above]
        )
    return max(found)


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
@pytest.mark.parametrize(("sigma", "rate"), [(0.8, 0.01), (0.05, 0.5), (3.0, 1.0)])
def test_a_step_is_that_of_the_library(sigma, rate, relation):
    known = from_gaussian_mechanism(
        sigma,
        value_discretization_interval=0.01,
        sampling_prob=rate,
        neighboring_relation=NeighboringRelation[relation],
    )
    found = pld._step(sigma, rate, 0.01, relation == "REPLACE_ONE")
    for epsilon in (0.0, 3.0, 200.0):
        expected = known.get_delta_for_epsilon(epsilon)
        assert delta_at(found, epsilon) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("sigma", "rate", "count"), [(1.7, 1e-4, 6_400), (0.8, 0.5, 9)]
)
def test_a_composition_is_that_of_the_library(sigma, rate, count, monkeypatch):
    for relation in (
        NeighboringRelation.ADD_OR_REMOVE_ONE,
        NeighboringRelation.REPLACE_ONE,
    ):
        known = from_gaussian_mechanism(
            sigma,
            value_discretization_interval=1e-4,
            sampling_prob=rate,
            neighboring_relation=relation,
        ).self_compose(count)
        steps = (sampled(sigma, steps=count, rate=rate),)
        found = pld.distribution(
            steps, 1e-4, relation is NeighboringRelation.REPLACE_ONE
        )
        for delta in (1e-9, 1e-3):
            expected = known.get_epsilon_for_delta(delta)
            assert pld.epsilon_at(found, delta=delta) == pytest.approx(
                expected, rel=1e-6
            )
    pld.distribution.cache_clear()
    monkeypatch.setattr(pld, "_self_composed", None)  # one step is no composition
    assert pld.distribution((sampled(3.1, steps=1, rate=0.5),), 1e-2, False)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.5])
@pytest.mark.parametrize(
    "what",
    [
        poisson(0.3, steps=30),  # its smallest epsilon is at an order of 1.1 to 2
        poisson(1.0, steps=100),
        poisson(8.0, steps=1, rate=1e-3),  # and of these at orders of hundreds
        replace(
            training(
                *(sampled(s, steps=n) for s, n in ((2.0, 300), (1.5, 200), (0.9, 10)))
            ),
            beside=histogram(3.0),
        ),
    ],
)
def test_orders_that_are_left_out_change_no_bit_of_epsilon(what, delta):
    every = renyi.to_epsilon(renyi.curve(what), delta=delta)
    assert renyi.epsilon_of((*what.steps, *what.beside), delta=delta) == every


def test_one_record_replaced_is_one_less_and_one_more():
    """Mironov 2017, Proposition 11 with p = q = 2, of the Gaussian mechanism."""
    orders = tuple(range(2, 65))
    found = renyi.replace_one_divergences(np.array(orders) / 2, orders)
    expected = [
        (a - 0.5) / (a - 1) * a + (2 * a - 1) / 2 if a <= 32 else math.inf
        for a in orders
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_orders_rise():
    """What bounds an order that is not among them is the next one in the list."""
    for orders in (renyi.FEW_ORDERS, renyi.ORDERS, renyi._FIRST):
        assert orders[0] > 1
        assert list(orders) == sorted(set(orders))
        assert set(orders) <= set(renyi.ORDERS)


def test_few_orders_are_computed_for_decaying_noise(monkeypatch):
    computed = []
    sum_of = renyi.sum_of

    def count(steps, orders):
        computed.extend(orders)
        return sum_of(steps, orders)

    monkeypatch.setattr(renyi, "sum_of", count)
    renyi.epsilon_of([sampled(2.0, steps=300), sampled(1.5, steps=200)], delta=1e-5)
    assert len(computed) < len(renyi.ORDERS) / 3


@pytest.mark.parametrize(
    ("mu", "delta"), [(2e-7, 1e-12), (1e-9, 1e-12), (1e-12, 1e-30)]
)
def test_a_tiny_mu_costs_little_and_gives_no_warning(mu, delta):
    """delta(epsilon) <= Phi(mu / 2 - epsilon / mu), so this many mu suffice."""
    gaussian_epsilon.cache_clear()
    assert 0 < gaussian_epsilon(mu, delta) <= mu * (mu / 2 - float(norm.ppf(delta)))


def test_the_least_target_is_still_met():
    built = mechanism()
    z = noise_for(built, target_epsilon=1e-6)
    assert epsilon_after(replace(built, noise_multiplier=z), built.epochs) <= 1e-6
    with refused("expected 1e-06 <= target_epsilon"):
        noise_for(built, target_epsilon=0.99e-6)


def test_a_target_that_the_histogram_alone_costs_is_refused():
    """To the last digit: nothing is left for the steps."""
    built = replace(mechanism(epochs=3, delta=1e-5), histogram_noise_multiplier=2.0)
    alone = certify(replace(release(built), steps=()), delta=1e-5).epsilon
    expected = outside.gaussian_epsilon(
        2.0 / math.sqrt(2), delta=1e-5
    )  # two counts change
    assert alone == pytest.approx(expected, rel=1e-9)
    with refused("the noised histogram alone costs"):
        noise_for(built, target_epsilon=alone)


def test_a_target_outside_of_an_accountants_theorem_is_refused(monkeypatch):
    """The theorem needs a noise of 2: what costs half of the target is not the smallest
    noise.
    """

    def figure(what, *, delta, accountant):
        if what.steps[0].sigma < 2:
            raise CannotAnalyze("too little noise for the theorem")
        return 1 / what.steps[0].sigma

    monkeypatch.setattr(calibration, "_figure", figure)
    monkeypatch.setattr(calibration, "_calibrate", lambda *given: 2.5)
    unit = poisson(1.0)
    with refused("too little noise", CannotAnalyze):
        calibration._by_name(unit, 1e-5, 1.0, "pld")
    assert calibration._by_name(unit, 1e-5, 0.25, "pld") == pytest.approx(4.0, rel=1e-4)


def test_no_warning_of_an_order_whose_series_does_not_converge():
    """Such an order counts as infinite."""
    with TestCase().assertNoLogs():
        assert np.isinf(renyi._one.__wrapped__(sampled(0.8, rate=1 / 3), (1.1,))).all()

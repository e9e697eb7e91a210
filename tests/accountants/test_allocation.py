"""Random allocation: its Rényi divergences against closed forms, quadrature and the
privacy loss, and its cost relative to other samplings.
"""

import math

import numpy as np
import pytest
from _mechanisms import allocated, mechanism, training

from tests.refusals import refused
from trainables.dp.accounting import allocation, renyi
from trainables.dp.accounting.accountants import gaussian, pld, rdp
from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.accounting.releases import Allocated, release
from trainables.errors import CannotAnalyze

ORDERS = renyi.ORDERS


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 4.0, 50.0, 1_000.0])
def test_one_step_is_the_gaussian_mechanism(sigma):
    """There the moments are known: E[Y^p] = exp(p (p - 1) / (2 sigma^2))."""
    s = np.array([0.1, 0.5, 1.0, 2.5, 10.0])
    inverse = allocation.log_inverse(sigma, 1, s)
    finite = np.isfinite(inverse)
    assert finite[:3].all()
    assert (
        allocation.log_inverse(sigma, 1, at_most := np.arange(20.0, 256.0))
        >= (at_most * (at_most + 1) / (2 * sigma**2) - 1e-9)
    ).all(), "what the grid does not hold is taken from above"
    assert inverse[finite] == pytest.approx(
        (s * (s + 1) / (2 * sigma**2))[finite], abs=1e-12
    )
    orders = np.array([1.1, 1.5, 2.0, 3.0, 16.0, 256.0])
    exact = orders * (orders - 1) / (2 * sigma**2)
    moments = allocation.log_moments(sigma, 1, orders)
    assert moments[2:] == pytest.approx(exact[2:], rel=1e-12)
    assert (exact[:2] <= moments[:2]).all()
    assert (moments[:2] <= exact[:2] + 1e-6).all()


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
def test_two_steps_against_quadrature(sigma):
    """The ratio of two steps, integrated over a grid of the plane."""
    x = np.linspace(-20, 20, 1_601)
    weight = np.exp(-x * x / 2)
    weight /= weight.sum()
    y = np.exp(x / sigma - 0.5 / sigma**2)
    mean = (y[:, None] + y) / 2
    both = weight[:, None] * weight
    orders = (1.2, 1.7, 2.0, 3.0, 4.0)
    removed, added = allocation.divergences(sigma, num_steps=2, orders=orders)
    for order, remove, add in zip(orders, removed, added, strict=True):
        exact = math.log(float((both * mean**order).sum())) / (order - 1)
        assert exact - 1e-9 <= remove
        assert remove == pytest.approx(exact, rel=2e-3 if order % 1 else 1e-9)
        exact = math.log(float((both * mean ** (1 - order)).sum())) / (order - 1)
        assert add == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("steps", [1_000, 15_625, 10**6, 10**9])
@pytest.mark.parametrize("sigma", [1.0, 5.0])
def test_many_steps_by_the_moments_of_their_mean(sigma, steps):
    """The ratio then is close to 1, and its moments are the first terms of the binomial
    series.
    """
    first, third, fourth = (math.exp(p * (p - 1) / (2 * sigma**2)) for p in (2, 3, 4))
    second, skew = first - 1, third - 3 * first + 2
    tail = fourth - 4 * third + 6 * first - 3
    orders = (1.1, 1.3, 1.5, 1.7, 1.9)
    removed, added = allocation.divergences(sigma, num_steps=steps, orders=orders)
    for order, remove, add in zip(orders, removed, added, strict=True):
        moment = (
            order * (order - 1) / 2 * second / steps
            + order * (order - 1) * (order - 2) / 6 * skew / steps**2
            + order
            * (order - 1)
            * (order - 2)
            * (order - 3)
            / 24
            * 3
            * second**2
            / steps**2
            + order * (order - 1) * (order - 2) * (order - 3) / 24 * tail / steps**3
        )
        exact = math.log1p(moment) / (order - 1)
        assert (
            exact * (1 - 1e-6) <= remove <= exact + (2e-8 + 2e-14 * steps) / (order - 1)
        )
        assert add > 0


@pytest.mark.parametrize(("sigma", "steps"), [(0.5, 7), (1.0, 40), (3.0, 300)])
def test_never_above_the_published_bounds(sigma, steps):
    """Feldman & Shenfeld 2025: (alpha + t - 1) / (2 t sigma^2) for a record added; and
    a step known to the adversary costs alpha / (2 sigma^2). Divergences grow with the
    order.
    """
    removed, added = allocation.divergences(sigma, num_steps=steps, orders=ORDERS)
    at = np.array(ORDERS)
    small = at <= 11
    assert (
        added[small] <= ((at + steps - 1) / (2 * steps * sigma**2))[small] + 1e-9
    ).all()
    for found in (removed, added):
        assert (found > 0).all()
        assert (found <= at / (2 * sigma**2)).all()
        assert (np.diff(found) >= -1e-7).all()


def delta_by_sampling(release_, epsilon, *, added, seed):
    """delta(epsilon) as a mean over drawn privacy losses, and its standard error."""
    draws = 200_000
    rng, loss = np.random.default_rng(seed), np.zeros(draws)
    for step in release_.steps:
        sigma, steps = step.sigma, step.steps
        for _ in range(step.count):
            x = rng.normal(0, sigma, (draws, steps))
            if not added:
                x[np.arange(draws), rng.integers(steps, size=draws)] += 1
            ratio = np.log(np.exp((x - 0.5) / sigma**2).mean(axis=1))
            loss += -ratio if added else ratio
    values = np.maximum(0.0, -np.expm1(epsilon - loss))
    return float(values.mean()), float(values.std() / math.sqrt(draws))


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("phases", [((1.0, 4),), ((0.6, 2),), ((2.0, 3), (1.0, 2))])
def test_the_figure_covers_the_privacy_loss_itself(phases, added):
    """False-alarm rate 1e-9 (six standard errors); a claim of 0.6 epsilon is
    rejected.
    """
    what = training(*(Allocated(sigma=s, count=count, steps=20) for s, count in phases))
    delta = 2e-3
    epsilon = rdp.of_release(what, delta=delta)
    mean, error = delta_by_sampling(what, epsilon, added=added, seed=1)
    assert mean - 6 * error <= delta
    if not added:  # the costlier direction
        low, error = delta_by_sampling(what, 0.6 * epsilon, added=added, seed=2)
        assert low - 6 * error > delta


def test_one_step_an_epoch_gains_nothing():
    what = allocated(1)
    assert rdp.of_release(what, delta=1e-5) >= gaussian.of_release(what, delta=1e-5)
    assert gaussian.of_release(what, delta=1e-5) == gaussian_epsilon(
        math.sqrt(30), 1e-5
    )


def test_what_has_no_theorem_is_refused():
    with refused("add_or_remove_one with sampling random_allocation"):
        mechanism(sampling="random_allocation", neighboring_relation="replace_one")
    with refused(r"pld: .* got random_allocation \(rdp bounds it\)", CannotAnalyze):
        what = release(mechanism("dp_sgd", sampling="random_allocation"))
        pld.of_release(what, delta=1e-5)
    with pytest.raises(ValueError, match="expected steps >= 1, got 0"):
        allocated(0)

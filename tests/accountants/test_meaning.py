"""The meaning of a trial's claim, from the accountant's whole privacy profile."""

import math
from dataclasses import replace

import numpy as np
import pytest
from _mechanisms import mechanism
from dp_accounting import ComposedDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from tests.accountants.outside import events_of
from trainables.dp.accounting import account, release
from trainables.dp.accounting.privacy_semantics import meaning

CENTRAL = {"noise_calibration": "central", "microbatch_size": 1}


def test_shuffled_epochs_are_one_gaussian_mechanism():
    summary = account(mechanism(noise_multiplier=10.0, **CENTRAL))
    mu = math.sqrt(30) * 2 / 10  # sensitivity 2 C under replace-one
    assert summary.gaussian_mu == pytest.approx(mu, rel=1e-6)
    for allowed, fpr in ((summary.max_tpr_1pct, 0.01), (summary.max_tpr_01pct, 0.001)):
        best = norm.cdf(norm.ppf(fpr) + mu)  # of any test (Dong, Roth & Su 2022)
        assert best <= allowed <= 1.01 * best


@pytest.mark.parametrize("sampling", ["poisson", "full"])
def test_a_histogram_beside_the_steps_is_a_part_of_the_meaning(sampling):
    """The library's pairs of both together allow it: the least of delta + e^epsilon a
    and 1 - e^-epsilon (1 - delta - a) (Kairouz, Oh & Viswanath 2015).
    """
    steps = mechanism("dp_sgd", sampling=sampling, epochs=3, noise_multiplier=4.0)
    built = replace(steps, histogram_noise_multiplier=2.0)
    both = PLDAccountant(value_discretization_interval=1e-3)
    both.compose(ComposedDpEvent(events_of([release(built)])))
    pairs = [(epsilon / 10, both.get_delta(epsilon / 10)) for epsilon in range(71)]
    found = account(built)
    for allowed, fpr in ((found.max_tpr_1pct, 0.01), (found.max_tpr_01pct, 0.001)):
        bounds = [delta + fpr * math.exp(epsilon) for epsilon, delta in pairs]
        bounds += [
            1 - math.exp(-epsilon) * (1 - delta - fpr) for epsilon, delta in pairs
        ]
        assert allowed == pytest.approx(min(bounds), rel=1e-2)


def test_a_poisson_claim_allows_more_than_any_test_gains():
    """Against the best test of two steps, drawn 2 million times. The room is six
    standard errors of the threshold's false-positive rate: false alarm below 10^-8.
    """
    built = mechanism("dp_sgd", num_records=128, epochs=1, batch=64, delta=1e-5)
    assert built.steps == 2
    one = account(built.first(1))
    rng = np.random.default_rng(0)
    draws, q = 2_000_000, 0.5

    def log_ratio(x):
        """Of two steps, for a record that moves the sum by C with probability q; sigma
        is 1.
        """
        return np.log(1 - q + q * np.exp(x - 0.5)).sum(axis=1)

    out = log_ratio(rng.normal(size=(draws, 2)))
    member = log_ratio(rng.normal(size=(draws, 2)) + (rng.random((draws, 2)) < q))
    for allowed, fpr in ((one.max_tpr_1pct, 0.01), (one.max_tpr_01pct, 0.001)):
        gained = float((member > np.quantile(out, 1 - fpr)).mean())
        assert 0.7 * allowed < gained <= allowed * (1 + 6 / math.sqrt(fpr * draws))


@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd"])
@pytest.mark.parametrize("z", [0.05, 0.5, 2.0])
def test_the_profile_is_sharper_than_its_point(engine, z):
    built = mechanism(engine, noise_multiplier=z, epochs=3)
    exact, planned = account(built), account(built, exact=False)
    point = meaning(exact.epsilon, delta=built.delta)
    assert exact.gaussian_mu == point.gaussian_mu <= planned.gaussian_mu
    assert exact.max_tpr_1pct <= point.max_tpr_1pct <= planned.max_tpr_1pct
    assert exact.max_tpr_01pct <= point.max_tpr_01pct <= planned.max_tpr_01pct
    if engine == "dp_sgd" and z == 0.5:
        assert exact.max_tpr_1pct < 0.9 * point.max_tpr_1pct

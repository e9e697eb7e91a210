"""The meaning of a claim against closed forms, and never below an attacker's real
power.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.accounting.privacy_semantics import (
    PROFILE_DELTAS,
    gaussian_delta,
    largest_tpr,
    meaning,
    nearest_gaussian_mu,
)


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.5, 1.0, 4.0, 30.0, 900.0, 2e4, 1e9])
@pytest.mark.parametrize("delta", [5e-4, 1e-5, 1e-9])
def test_a_gaussian_mechanism_is_its_own_nearest(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon > 0:
        assert nearest_gaussian_mu(epsilon, delta=delta) == pytest.approx(mu, rel=1e-6)


def test_the_edges_of_the_nearest_gaussian():
    assert nearest_gaussian_mu(math.inf, delta=1e-5) == math.inf
    # At epsilon 0, delta is the total variation: 2 Phi(mu / 2) - 1.
    none = nearest_gaussian_mu(0.0, delta=0.1)
    assert 2 * norm.cdf(none / 2) - 1 == pytest.approx(0.1)
    for epsilon, delta in ((-1.0, 1e-5), (math.nan, 1e-5), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="expected epsilon >= 0 and 0 < delta < 1"):
            nearest_gaussian_mu(epsilon, delta=delta)


@pytest.mark.parametrize("fpr", [0.001, 0.01])
@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_a_whole_profile_gives_the_tests_own_power(mu, fpr):
    """Of a Gaussian mechanism: the Neyman-Pearson test is known, and no pair undercuts
    it.
    """
    profile = [(gaussian_epsilon(mu, delta), delta) for delta in PROFILE_DELTAS]
    power = norm.sf(norm.isf(fpr) - mu)
    allowed = largest_tpr(profile, fpr=fpr)
    assert power <= allowed * (1 + 1e-9)
    assert allowed == pytest.approx(power, rel=0.01)


@pytest.mark.parametrize("fpr", [0.001, 0.01, 0.2])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 8.0])
def test_randomised_response_reaches_the_bound(epsilon, fpr):
    """The bound of one pair is attained: no smaller one would be true."""
    truth = 1 / (1 + math.exp(-epsilon))  # P(answer is right)
    # Its only tests: say "member" on the right answer (FPR 1 - truth), or a mixture
    # with a coin.
    if fpr <= 1 - truth:
        power = fpr / (1 - truth) * truth
    else:
        power = truth + (fpr - (1 - truth)) / truth * (1 - truth)
    assert largest_tpr([(epsilon, 0.0)], fpr=fpr) == pytest.approx(power)


@given(epsilon=st.floats(0, 2_000), delta=st.floats(1e-12, 0.5), more=st.floats(0, 5))
def test_a_larger_claim_allows_more(epsilon, delta, more):
    small, large = meaning(epsilon, delta=delta), meaning(epsilon + more, delta=delta)
    assert small.gaussian_mu <= large.gaussian_mu * (1 + 1e-9)
    assert 0.01 <= small.max_tpr_1pct <= large.max_tpr_1pct <= 1
    assert 0.001 <= small.max_tpr_01pct <= large.max_tpr_01pct <= 1
    assert small.max_tpr_01pct <= small.max_tpr_1pct


def test_more_of_the_profile_sharpens_the_meaning():
    alone = meaning(8.0, delta=1e-5)
    profile = [
        (gaussian_epsilon(alone.gaussian_mu, delta), delta)
        for delta in (1e-3, 1e-2, 0.1)
    ]
    sharper = meaning(8.0, delta=1e-5, profile=profile)
    assert sharper.gaussian_mu == alone.gaussian_mu
    assert sharper.max_tpr_01pct < alone.max_tpr_01pct


def test_no_guarantee_allows_everything():
    assert largest_tpr([(1e4, 1e-5)], fpr=0.01) == 1.0
    found = meaning(math.inf, delta=1e-5)
    assert (found.gaussian_mu, found.max_tpr_1pct, found.max_tpr_01pct) == (
        math.inf,
        1.0,
        1.0,
    )


def test_no_difference_or_no_false_positives_give_no_power():
    assert gaussian_delta(0.0, 1.0) == 0.0
    assert largest_tpr([(1.0, 0.1)], fpr=0.0) == pytest.approx(0.1)

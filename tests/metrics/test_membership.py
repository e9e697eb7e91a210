import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from tests.refusals import refused
from trainables.dp.accounting.privacy_semantics import max_advantage
from trainables.metrics import membership
from trainables.metrics.membership import (
    auc,
    auc_change,
    figures,
    placements,
    roc,
    tpr_at_fpr,
)

SCORES = np.array([0.9, 0.8, 0.3, 0.7, 0.2, 0.1, 0.05])
MEMBER = np.array([True, True, True, False, False, False, False])


def test_vector():
    found, curve = figures(SCORES, MEMBER), roc(SCORES, MEMBER)
    named = [found[name] for name in ("auc", "advantage", "balanced_accuracy")]
    assert named == pytest.approx([11 / 12, 0.75, 0.875])
    rates = [tpr_at_fpr(curve, fpr).value for fpr in (0.0, 0.249, 0.25)]
    assert rates == pytest.approx([2 / 3, 2 / 3, 1]), "the curve is a step"


def test_equal_scores_say_nothing():
    found = figures(np.ones(7), MEMBER)
    assert (found["auc"], found["tpr_1pct"], found["advantage"]) == (0.5, 0.0, 0.0)


LABELED = st.integers(2, 30).flatmap(
    lambda n: st.tuples(
        arrays.arrays(np.float64, n, elements=st.integers(-3, 3).map(float)),
        arrays.arrays(np.bool_, n).filter(lambda mask: mask.any() and not mask.all()),
    )
)


@settings(deadline=None)
@given(LABELED)
def test_auc_is_the_share_of_pairs_in_order(pair):
    scores, member = pair
    found = auc(scores, member)
    assert found.value == pytest.approx(roc_auc_score(member, scores))
    assert 0 <= found.low <= found.value <= found.high <= 1
    # The area under the corners, by trapezoids, is the same number.
    curve = roc(scores, member)
    assert np.trapezoid(curve.tpr, curve.fpr) == pytest.approx(found.value)


@settings(deadline=None)
@given(LABELED, st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.5, 1.0]))
def test_step_rate_against_every_threshold(pair, max_fpr):
    scores, member = pair
    best = 0.0
    for threshold in [*scores, np.inf]:
        called = scores >= threshold
        if called[~member].mean() <= max_fpr:
            best = max(best, called[member].mean())
    found = tpr_at_fpr(roc(scores, member), max_fpr)
    assert found.value == pytest.approx(best)
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize(
    ("area", "members", "others", "least"),
    [(0.7, 120, 80, 7), (0.8, 10, 10, 0), (0.95, 20, 20, 0)],
)
def test_delong_interval_covers_as_stated(area, members, others, least):
    """400 draws: misses are at most Bin(400, .05), above 36 with probability < 0.0002,
    of many records below 7 likewise.

    An error 2/3 as large would miss in 19 % of draws, one 3/2 as large in 0.3 %. An
    interval that is normal in the AUC itself misses in 10 and 14 % with few records.
    """
    shift = math.sqrt(2) * norm.ppf(area)
    misses = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        scores = np.r_[rng.normal(shift, 1, members), rng.normal(0, 1, others)]
        found = auc(scores, np.arange(members + others) < members)
        misses += not found.low <= area <= found.high
    assert least <= misses <= 36


@pytest.mark.slow  # 200 draws, each with a bootstrap
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
def test_interval_of_a_rate_covers_although_its_threshold_is_estimated(shift):
    """200 draws: misses are at most Bin(200, .05), above 22 with probability < 0.0003.

    The exact interval at the empirical threshold alone misses in 17 to 50 % of draws.
    """
    truth = norm.sf(norm.isf(0.01) - shift)
    misses = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores = np.r_[rng.normal(shift, 1, 1_500), rng.normal(0, 1, 1_500)]
        found = tpr_at_fpr(roc(scores, np.arange(3_000) < 1_500), 0.01)
        misses += not found.low <= truth <= found.high
    assert misses <= 22


def test_a_rate_that_no_record_resolves_has_no_lower_bound():
    found = figures(np.arange(40.0)[::-1], np.arange(40) < 20)
    assert (found["tpr_01pct"], found["tpr_01pct_low"], found["tpr_01pct_high"]) == (
        1,
        0,
        1,
    )


def test_perfect_separation_is_not_certainty():
    member = np.arange(40) < 20
    found = auc(member.astype(float), member)
    assert found.value == found.high == 1
    assert found.low == pytest.approx(0.025 ** (1 / 20))
    rate = tpr_at_fpr(roc(member.astype(float), member), 0.5)
    assert rate.low == pytest.approx(0.0125 ** (1 / 20)), (
        "half of the error is the threshold's"
    )


def test_bootstrap_of_the_change_agrees_with_delong():
    rng = np.random.default_rng(1)
    member = np.arange(1_500) < 800
    shared = rng.normal(0, 1, 1_500) + 0.5 * member
    first, second = shared + rng.normal(size=1_500), shared + rng.normal(size=1_500)
    found = auc_change((first, member), (second, member), samples=2_000, rng=rng)
    base = auc(second, member).value
    # DeLong's covariance takes out what the two scores share (DeLong et al. 1988).
    sides = [placements(scores, member) for scores in (first, second)]
    above, below = (mine - theirs for mine, theirs in zip(*sides, strict=True))
    error = math.sqrt(above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below))
    assert found["delta_mia_percent"] == pytest.approx(100 * above.mean() / base)
    width = found["delta_mia_percent_high"] - found["delta_mia_percent_low"]
    assert width == pytest.approx(100 * 2 * 1.96 * error / base, rel=0.12)
    same = auc_change((first, member), (first, member), samples=100, rng=rng)
    assert same["delta_mia_significant"] == 0
    strong = auc_change(
        (shared + member, member), (second, member), samples=200, rng=rng
    )
    assert strong["delta_mia_significant"] == 1


def test_a_resample_without_the_baselines_auc_has_an_infinite_change():
    """Its NaN became a bound of the interval, and a warning on the terminal."""
    member = np.arange(6) < 3
    baseline = np.array(
        [0.0, 1.15, 0.2, 1.0, 1.1, 1.2]
    )  # one member above one other record
    trial = np.array([0.0, 1.15, 1.3, 1.0, 1.1, 1.2])
    found = auc_change(
        (trial, member), (baseline, member), rng=np.random.default_rng(0)
    )
    assert found["delta_mia_percent"] == pytest.approx(150)
    assert found["delta_mia_percent_high"] == math.inf
    assert found["delta_mia_percent_low"] <= 150
    lowest = np.where(member, 0.0, 1.0)
    none = auc_change((trial, member), (lowest, member), rng=np.random.default_rng(0))
    assert none["delta_mia_significant"] == 0
    assert all(
        math.isnan(none[f"delta_mia_percent{end}"]) for end in ("", "_low", "_high")
    )


def test_trials_with_masks_of_their_own_can_be_compared():
    rng = np.random.default_rng(2)
    sides = [
        (rng.normal(size=1_000) + mask, mask) for mask in (rng.random((2, 1_000)) < 0.5)
    ]
    found = auc_change(*sides, samples=300, rng=rng)
    expected = 100 * (auc(*sides[0]).value / auc(*sides[1]).value - 1)
    assert found["delta_mia_percent"] == pytest.approx(expected)
    assert found["delta_mia_percent_low"] < expected < found["delta_mia_percent_high"]


def test_resolution_mark():
    rng = np.random.default_rng(0)
    for others, marked in ((9_999, True), (10_000, False)):
        member = np.arange(100 + others) < 100
        found = figures(rng.normal(size=len(member)), member)
        assert found["tpr_01pct_low_resolution"] == marked
        assert found["tpr_1pct_low_resolution"] == 0


@pytest.mark.parametrize(
    ("epsilon", "bound"), [(0.1, 0.049958), (1, 0.462117), (2, 0.761594)]
)
def test_advantage_that_dp_allows(epsilon, bound):
    assert max_advantage(epsilon, 0.0) == pytest.approx(bound, abs=1e-6)
    delta = 1e-3
    factor = math.exp(epsilon)
    assert max_advantage(epsilon, delta) == pytest.approx(
        (factor - 1 + 2 * delta) / (factor + 1)
    )


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(1, 0.2681), (2, 0.5016), (4, 0.9249), (8, 1.6660)]
)
def test_consistency_checks_pass_at_the_claim_and_fail_far_below_it(epsilon, mu):
    rng = np.random.default_rng(epsilon)
    member = np.arange(20_000) < 10_000
    scores = rng.normal(size=20_000) + mu * member
    assert (
        membership.dp_inconsistencies(scores, member, epsilon=epsilon, delta=1e-5) == ()
    )
    broken = membership.dp_inconsistencies(
        scores, member, epsilon=epsilon / 20, delta=1e-5
    )
    assert "advantage" in broken
    assert (
        membership.dp_inconsistencies(scores, member, epsilon=math.inf, delta=1e-5)
        == ()
    )


@pytest.mark.parametrize(
    ("scores", "member", "message"),
    [
        ([1.0, np.nan], [True, False], "without NaN, got 1"),
        ([1.0, 2.0], [True, True], "members and non-members, got 2 members of 2"),
        ([1.0], [True, False], "one shape"),
    ],
)
def test_scores_that_cannot_be_evaluated_are_refused(scores, member, message):
    with refused(message):
        figures(np.array(scores), np.array(member))


def test_infinite_scores_are_only_very_high():
    assert (
        figures(np.array([np.inf, 1.0, -np.inf]), np.array([True, False, False]))["auc"]
        == 1
    )

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tests.attacks._worlds import coins, every_figure, paired_coins, signals
from tests.refusals import refused
from trainables.attacks import Knowledge, _estimates, one_run
from trainables.dp.audit.audit import epsilon_lower_bound

# (m, r, v, delta) -> epsilon; those with delta 1e-5 and m >= 1000 agree with
# jax_privacy's.
VECTORS = {
    (1_000, 1_000, 1_000, 0): 5.8091,
    (1_000, 1_000, 750, 0): 0.9767,
    (1_000, 100, 100, 0): 3.4930,
    (1_000, 100, 100, 1e-5): 3.4654,
    (1_000, 100, 95, 1e-5): 2.1652,
    (1_000, 200, 140, 0): 0.5849,
    (1_000, 200, 140, 1e-5): 0.5836,
    (100, 100, 60, 0): 0.0519,
    (2_000, 400, 380, 1e-5): 2.5542,
    (1_000, 1_000, 500, 0): 0.0,
    (2_650, 200, 180, 0): 1.799,
    (2_650, 200, 180, 1e-5): 1.792,
    (2_650, 200, 180, 5e-5): 1.762,
    (2_650, 200, 180, 5e-4): 0.844,
}


@pytest.mark.parametrize(("counts", "expected"), VECTORS.items())
def test_bound_vectors(counts, expected):
    m, r, v, delta = counts
    assert one_run.epsilon_lower_bound(m, r, v, delta=delta) == pytest.approx(
        expected, abs=6e-4
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1_000, 100, 100), 5.5490),
        ((1_000, 100, 95), 3.3233),
        ((1_000, 200, 140), 0.9109),
        ((2_000, 400, 380), 4.0421),
    ],
)
def test_fdp_vectors(counts, expected):
    assert _estimates.fdp(*counts, delta=1e-5, p=0.05) == pytest.approx(
        expected, abs=1e-4
    )


COUNTS = st.integers(1, 300).flatmap(
    lambda m: st.integers(1, m).flatmap(
        lambda r: st.tuples(st.just(m), st.just(r), st.integers(0, r))
    )
)
DELTA = st.sampled_from([0.0, 1e-6, 1e-4, 1e-2])


@settings(deadline=None)
@given(COUNTS, DELTA, st.floats(0, 20))
def test_p_value_is_a_probability_and_grows_with_epsilon(counts, delta, epsilon):
    p = one_run.p_value(*counts, epsilon=epsilon, delta=delta)
    assert 0 <= p <= 1
    assert p <= one_run.p_value(*counts, epsilon=epsilon + 0.5, delta=delta) + 1e-9


@settings(deadline=None)
@given(COUNTS, DELTA)
def test_p_value_against_the_formula_by_sums(counts, delta):
    m, r, v = counts
    m, r, v, epsilon = min(m, 40), min(r, 40), min(v, 40), 0.8
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    weights = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    tail = sum(weights[v:])
    alpha = max([sum(weights[v - i : v]) / i for i in range(1, v + 1)], default=0.0)
    expected = min(1.0, tail + 2 * m * delta * alpha)
    assert one_run.p_value(m, r, v, epsilon=epsilon, delta=delta) == pytest.approx(
        expected
    )


@settings(deadline=None)
@given(COUNTS, DELTA)
def test_bound_grows_with_right_guesses_and_falls_with_m_delta(counts, delta):
    m, r, v = counts
    found = one_run.epsilon_lower_bound(m, r, v, delta=delta)
    assert found >= 0
    if v < r:
        assert one_run.epsilon_lower_bound(m, r, v + 1, delta=delta) >= found - 1e-6
    assert one_run.epsilon_lower_bound(m, r, v, delta=2 * delta) <= found + 1e-6
    assert one_run.epsilon_lower_bound(2 * m, r, v, delta=delta) <= found + 1e-6


def _randomized_response(epsilon, num_pairs, seed):
    """The mechanism for which the theorem is tight: each coin is reported, correctly
    with q.
    """
    member, pairs = paired_coins(num_pairs, seed)
    rng = np.random.default_rng([seed, 7])
    honest = rng.random(num_pairs) < 1 / (1 + math.exp(-epsilon))
    reported = np.where(honest, member[::2], ~member[::2])
    scores = np.repeat(rng.random(num_pairs), 2)
    scores[::2] += np.where(reported, 1.0, -1.0)
    return scores, signals(member, mode="paired", pairs=pairs)


def _bound(epsilon, num_pairs, seed, *, num_trials=1):
    world = _randomized_response(epsilon, num_pairs, seed)
    return one_run.audit(*world, delta=0.0, num_trials=num_trials)[
        "epsilon_lower_bound"
    ]


def test_bound_exceeds_the_truth_in_at_most_the_stated_share_of_runs():
    """200 runs at epsilon 1: more than 5 % plus 3 standard errors (19 runs) has odds <
    0.004.

    The guard is no empty one: two thirds of the truth is exceeded far more often.
    """
    limit = 200 * (0.05 + 3 * math.sqrt(0.05 * 0.95 / 200))
    above = [
        sum(_bound(truth, 400, seed) > 1 for seed in range(200)) for truth in (1.0, 1.5)
    ]
    assert above[0] <= limit < above[1]


def test_all_bounds_of_a_sweep_hold_together():
    """100 sweeps of 5 trials: at least one bound too high in at most 5 % + 3 standard
    errors.
    """
    wrong = sum(
        any(_bound(1.0, 200, 5 * sweep + trial, num_trials=5) > 1 for trial in range(5))
        for sweep in range(100)
    )
    assert wrong <= 100 * (0.05 + 3 * math.sqrt(0.05 * 0.95 / 100))


@pytest.mark.parametrize("mode", ["paired", "bernoulli"])
def test_a_mechanism_without_noise_is_caught(mode):
    """Members are distinguished almost surely; a claim of epsilon 2 is refuted."""
    if mode == "paired":
        member, pairs = paired_coins(1_300, 0)
    else:
        member, pairs = coins(2_600, 0), None
    world = signals(member, 8.0, seed=1, mode=mode, pairs=pairs)
    found = one_run.audit(one_run.scores(world, Knowledge()), world, delta=1e-5)
    units = 1_300 if mode == "paired" else 2_600
    assert found["mia_one_run_num_units"] == units
    assert found["mia_one_run_num_guesses"] == math.ceil(0.05 * units)
    assert found["epsilon_estimate_fdp"] > found["epsilon_lower_bound"] > 2


def test_power_of_gaussian_scores():
    """Section 3.5 at epsilon 4, m = 2600, r = 5 %: the median of six bounds is near
    1.53.
    """
    mu = 0.9249
    bounds, estimates = [], []
    for seed in range(6):
        member = coins(2_600, seed)
        scores = np.random.default_rng(seed).normal(size=2_600) + mu * member
        found = one_run.audit(scores, signals(member), delta=1e-5)
        bounds.append(found["epsilon_lower_bound"])
        estimates.append(found["epsilon_estimate_fdp"])
    assert np.median(bounds) == pytest.approx(1.53, abs=0.35)
    assert np.median(estimates) == pytest.approx(2.11, abs=0.5)


def test_rules_of_guessing_do_not_see_the_coins():
    member, pairs = paired_coins(50, 3)
    world = signals(member, mode="paired", pairs=pairs)
    other = signals(~member, mode="paired", pairs=pairs)
    scores = np.random.default_rng(0).normal(size=100)
    evidence, coin = one_run.unit_scores(scores, world)
    same, flipped = one_run.unit_scores(scores, other)
    np.testing.assert_array_equal(evidence, same)
    np.testing.assert_array_equal(coin, ~flipped)


def test_more_references_make_a_better_guesser():
    difficulty = np.random.default_rng(5).normal(0, 2, 4_000)
    trials = []
    for seed in range(18):
        member, pairs = paired_coins(2_000, seed)
        trials.append(
            signals(
                member,
                1.0,
                seed=70 + seed,
                mode="paired",
                pairs=pairs,
                difficulty=difficulty,
            )
        )
    bounds = []
    alone = one_run.scores(trials[0], Knowledge())
    for scores in (
        alone,
        *(one_run.all_scores(trials[:n])[0] for n in (3, len(trials))),
    ):
        bounds.append(
            one_run.audit(scores, trials[0], delta=1e-5)["epsilon_lower_bound"]
        )
    assert bounds[0] < bounds[1]
    assert bounds[0] < bounds[2]


@pytest.mark.parametrize(
    ("counts", "delta", "expected"),
    [
        ((90, 100, 10, 100), 0.0, 1.5422),
        ((90, 100, 10, 100), 1e-5, 1.5421),
        ((500, 500, 0, 500), 0.0, 4.9056),
        ((100, 1_000, 10, 1_000), 0.0, 1.5004),
        ((50, 1_000, 1, 1_000), 0.0, 1.9045),
        ((55, 100, 50, 100), 0.0, 0.0),
    ],
)
def test_clopper_pearson_vectors(counts, delta, expected):
    names = ("true_positives", "positives", "false_positives", "negatives")
    named = dict(zip(names, counts, strict=True))
    found = epsilon_lower_bound(**named, delta=delta, false_alarm=0.05)
    assert found == pytest.approx(expected, abs=5e-5)


def test_clopper_pearson_of_noise_is_zero_although_its_threshold_was_chosen():
    """Null scores give a positive bound in at most 5 % of 100 draws, plus 3 standard
    errors.
    """
    positive = 0
    for seed in range(100):
        member = coins(400, seed)
        scores = np.random.default_rng(seed).normal(size=400)
        positive += _estimates.clopper_pearson_of_scores(scores, member, delta=0.0) > 0
    assert positive <= 11


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(1, 0.2681), (2, 0.5016), (4, 0.9249), (8, 1.6660)]
)
def test_gaussian_epsilon(epsilon, mu):
    area = float(norm.cdf(mu / math.sqrt(2)))
    assert _estimates.gdp(area, delta=1e-5) == pytest.approx(epsilon, abs=2e-3)


def test_gaussian_epsilon_at_the_edges():
    for delta in (0.0, 1e-5):
        assert _estimates.gdp(0.4, delta=delta) == 0
        assert _estimates.gdp(1.0, delta=delta) == math.inf
    assert _estimates.gdp(0.6, delta=0.0) == math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 20, 5, 0.0, 0.05), "correct <= guesses <= units"),
        ((10, 5, 6, 0.0, 0.05), "correct <= guesses <= units"),
        ((10, 0, 0, 0.0, 0.05), "at least one guess"),
        ((10, 5, 5, 1.5, 0.05), "0 <= delta < 1, got delta=1.5"),
        ((10, 5, 5, 0.0, 0.0), "0 < p < 1"),
    ],
)
def test_impossible_counts_are_refused(arguments, message):
    m, r, v, delta, p = arguments
    with refused(message):
        one_run.epsilon_lower_bound(m, r, v, delta=delta, p=p)


def test_splits_without_coins_have_no_bound():
    assert one_run.comparable("paired", "shuffle")
    for sampling in ("poisson", "random_allocation", "full"):
        assert one_run.comparable("bernoulli", sampling)
        assert not one_run.comparable("paper", sampling)
        assert not one_run.comparable("paired", sampling, unit="group")
    assert not one_run.comparable("bernoulli", "shuffle")


def test_coins_of_records_certify_nothing_about_groups():
    """A record more or less changes its group's clipped sum by up to 2 C, as a replaced
    group does: a bound between the epsilon of adding a group and that of replacing one
    breaks no claim.
    """
    member, pairs = paired_coins(200, 0)
    for mode, own in (("bernoulli", None), ("paired", pairs)):
        world = signals(member, strength=9.0, mode=mode, pairs=own)
        assert "epsilon_lower_bound" in every_figure(world, sampling="poisson")
        found = every_figure(world, sampling="poisson", unit="group")
        assert "epsilon_lower_bound" not in found
        assert "mia_loss_threshold_auc" in found


def test_damaged_pairs_are_refused():
    both = signals(
        np.ones(100, dtype=bool), mode="paired", pairs=np.repeat(np.arange(50), 2)
    )
    with refused("exactly one member in each pair"):
        one_run.audit(both.psi, both, delta=0.0)
    triple = signals(coins(99, 0), mode="paired", pairs=np.repeat(np.arange(33), 3))
    with refused("pairs of two records, got one of 3"):
        one_run.audit(triple.psi, triple, delta=0.0)
    alone = signals(coins(10, 0), mode="paired")
    with refused("expected pairs to audit"):
        one_run.audit(alone.psi, alone, delta=0.0)

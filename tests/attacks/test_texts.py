"""Attacks that read the words of a record: the control, which must find nothing, and
quantile.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse

from tests.attacks._worlds import coins, paired_coins, signals
from tests.refusals import refused
from trainables.attacks import Knowledge, bag_of_words, blind, loss_threshold, quantile
from trainables.metrics.membership import auc


def _texts(n, seed, *, types=300, marked=None):
    """Random utterances; `marked` [n] puts a word of its own into half of those
    records.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, n)
    tokens = np.minimum(rng.zipf(1.5, lengths.sum()) - 1, types - 2)
    if marked is not None:
        last = np.cumsum(lengths) - 1
        tokens[last[marked & (rng.random(n) < 0.5)]] = types - 1
    return bag_of_words(tokens, lengths, num_types=types)


def test_bag_of_words():
    bag = bag_of_words(np.array([2, 2, 0, 1]), np.array([3, 1]), num_types=3)
    np.testing.assert_allclose(
        bag.toarray(), [[1, 0, 1, np.log(4)], [0, 1, 0, np.log(2)]]
    )


@pytest.mark.parametrize("mode", ["bernoulli", "paired"])
def test_blind_finds_nothing_in_a_random_split(mode):
    """30 splits, each interval misses 0.5 in 5 %: more than 6 misses has odds <
    0.001.
    """
    misses = 0
    for seed in range(30):
        member, pairs = paired_coins(250, seed)
        if mode == "bernoulli":
            member, pairs = coins(500, seed), None
        world = signals(member, 2.0, seed=seed, mode=mode, pairs=pairs)
        texts = _texts(500, seed)
        if mode == "paired":  # records of a pair resemble each other
            texts = sparse.csr_matrix(texts[np.repeat(np.arange(0, 500, 2), 2)])
        found = auc(
            blind.scores(world, Knowledge(texts=texts), seed=seed), world.member
        )
        misses += not found.low <= 0.5 <= found.high
    assert misses <= 6


def test_blind_finds_a_split_that_gives_its_members_away():
    member = coins(800, 0)
    world = signals(member, 0.0, mode="paper")
    scores = blind.scores(world, Knowledge(texts=_texts(800, 1, marked=member)))
    assert 0 < scores.min() < scores.max() == 1, (
        "ranks in a fold, so that folds compare"
    )
    found = auc(scores, member)
    assert found.value > 0.7
    assert found.low > 0.5


def test_blind_never_looks_at_the_model():
    member, texts = coins(300, 0), Knowledge(texts=_texts(300, 1))
    quiet, loud = signals(member, 0.0), signals(member, 9.0)
    np.testing.assert_array_equal(blind.scores(quiet, texts), blind.scores(loud, texts))


def _hard_words(n, seed):
    """A world in which one frequent word makes a record hard, with 1000 population
    records.
    """
    outside = np.arange(n) >= n - 1_000
    texts = _texts(n, seed)
    hard = np.asarray(texts[:, [1]].todense()).ravel() > 0
    member = coins(n, seed) & ~outside
    return (
        signals(
            member,
            1.0,
            seed=seed,
            difficulty=-4.0 * hard,
            population=outside,
            mode="paper",
        ),
        Knowledge(texts=texts),
    )


def test_quantile_takes_out_what_the_words_explain():
    world, knowledge = _hard_words(4_000, 0)
    evaluated = world.is_evaluated
    alone = auc(
        loss_threshold.scores(world, knowledge)[evaluated], world.member[evaluated]
    )
    found = auc(quantile.scores(world, knowledge)[evaluated], world.member[evaluated])
    assert found.value > alone.value + 0.03
    assert found.low > 0.5


def test_quantile_is_exceeded_by_its_share_of_non_members():
    """10 % of 1000 new non-members, six standard errors either way."""
    world, knowledge = _hard_words(4_000, 1)
    others = world.is_evaluated & ~world.member
    exceeded = (quantile.scores(world, knowledge)[others] > 0).mean()
    assert exceeded == pytest.approx(0.1, abs=6 * np.sqrt(0.09 / others.sum()) + 0.02)


def test_quantile_learns_on_the_population_only():
    world, knowledge = _hard_words(2_000, 2)
    flipped = replace(world, member=~world.member & world.is_evaluated)
    first, second = (quantile.scores(each, knowledge) for each in (world, flipped))
    np.testing.assert_array_equal(first, second)


def test_refusals():
    world = signals(coins(100, 0), mode="paper")
    with refused("at least 50 non-members outside"):
        quantile.scores(world, Knowledge(texts=_texts(100, 0)))
    few = signals(np.arange(100) < 4, mode="paper")
    with refused("at least 5 members and non-members"):
        blind.scores(few, Knowledge(texts=_texts(100, 0)))

"""The contract of splits: public sizes, disjoint parts, fair coins."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.refusals import refused
from trainables.config.trial import data_config
from trainables.data.split import make_split, training_size

N = 1_003


def corpus(n=N, *, seed=0, parts=(0, 1, 2)):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, n)
    return SimpleNamespace(
        num_records=n,
        part=rng.choice(np.array(parts, dtype=np.int8), n),
        intents=rng.integers(-2, 6, n).astype(np.int16),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
    )


def split_of(mode, *, n=N, mask_seed=0, **fields):
    config = data_config(split=mode, **fields)
    return make_split(config, corpus=corpus(n), mask_seed=mask_seed)


@pytest.mark.parametrize("mode", ["paper", "official", "bernoulli", "paired"])
def test_parts_are_ascending_disjoint_and_repeatable(mode):
    split = split_of(mode)
    parts = [split.train, split.validation, split.test]
    assert all((np.diff(ids) > 0).all() for ids in parts)
    every = np.concatenate(parts)
    assert len(np.unique(every)) == len(every)
    for ids, again in zip(parts, vars(split_of(mode)).values(), strict=False):
        np.testing.assert_array_equal(ids, again)


@pytest.mark.parametrize(
    ("n", "sizes"), [(5_473, (2_463, 274, 2_736)), (20_000, (9_000, 1_000))]
)
def test_the_papers_split_is_45_5_50_of_the_pool(n, sizes):
    split = split_of("paper", n=n)
    assert (len(split.train), len(split.validation), len(split.test))[
        : len(sizes)
    ] == sizes
    assert training_size(n, data_config(split="paper")) == sizes[0]


def test_split_seed_draws_another_split():
    assert not np.array_equal(
        split_of("paper").train, split_of("paper", split_seed=1).train
    )


def test_the_fixed_splits_do_not_see_the_trials_seed():
    for mode in ("paper", "official"):
        np.testing.assert_array_equal(
            split_of(mode).train, split_of(mode, mask_seed=9).train
        )


@pytest.mark.parametrize("mode", ["bernoulli", "paired"])
def test_validation_and_test_are_common_to_all_trials(mode):
    one, other = split_of(mode, mask_seed=1), split_of(mode, mask_seed=2)
    np.testing.assert_array_equal(one.validation, other.validation)
    np.testing.assert_array_equal(one.test, other.test)
    assert not np.array_equal(one.train, other.train)
    for split in (one, other):
        np.testing.assert_array_equal(split.train, split.audit_pool[split.mask])


def test_a_pair_has_one_member_and_the_declared_size_is_their_number():
    split = split_of("paired")
    members = np.isin(split.pairs, split.train)
    assert (members.sum(axis=1) == 1).all()
    assert (
        len(split.train)
        == len(split.pairs)
        == training_size(N, data_config(split="paired"))
    )
    assert (
        (split.pairs[split.pair_numbers] == split.audit_pool[:, None]).any(axis=1).all()
    )


def test_pairs_are_alike():
    data, split = corpus(), split_of("paired")
    first, second = split.pairs.T
    assert (data.intents[first] == data.intents[second]).mean() > 0.98
    lengths = np.diff(data.offsets)
    apart = np.abs(lengths[first] - lengths[second])
    strangers = np.abs(lengths[first] - lengths[np.roll(second, 1)]).mean()
    assert apart.mean() < 0.5 < strangers


@pytest.mark.parametrize("mode", ["bernoulli", "paired"])
def test_coins_are_fair_and_independent_between_trials(mode):
    """400 trials. A record's count is Binomial(400, 1/2); chi-square over the records
    and the correlation of neighbouring trials are each 5 sigma tests: false alarms
    below 1e-5.
    """
    masks = np.array([split_of(mode, mask_seed=seed).mask for seed in range(400)])
    if mode == "paired":  # one coin a pair
        pairs = split_of(mode)
        masks = masks[:, np.searchsorted(pairs.audit_pool, pairs.pairs[:, 0])]
    trials, coins = masks.shape
    z = (masks.sum(axis=0) - trials / 2) / np.sqrt(trials / 4)
    assert abs((z**2).sum() - coins) < 5 * np.sqrt(2 * coins)
    # A design balanced over trials would have z = 0 and fail the line above.
    signs = masks * 2.0 - 1
    between = (signs[1:] * signs[:-1]).mean()
    assert abs(between) < 5 / np.sqrt(masks[1:].size)
    assert abs(signs.mean()) < 5 / np.sqrt(masks.size)


def test_a_part_without_records_is_refused_by_name():
    config = data_config(split="official")
    with refused("records in the test part"):
        make_split(config, corpus=corpus(parts=(0, 1)), mask_seed=0)


def test_an_official_split_without_validation_gives_some_of_its_training_part():
    data = corpus(parts=(0, 2))
    split = make_split(data_config(split="official"), corpus=data, mask_seed=0)
    train = np.flatnonzero(data.part == 0)
    assert len(split.validation) == round(0.05 * len(train))
    np.testing.assert_array_equal(np.union1d(split.train, split.validation), train)


def test_no_size_is_known_of_an_official_split():
    with refused(r"data\.num_records"):
        training_size(N, data_config(split="official"))

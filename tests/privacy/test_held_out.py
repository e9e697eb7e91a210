"""Sums of held-out records: what one unit moves, the law of the noise, its streams, and
the intervals around it.
"""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from tests.refusals import refused
from trainables.dp.held_out import (
    Contributions,
    HeldOut,
    Released,
    noise_on_sum,
    ratio_interval,
    rounded_gaussian,
)
from trainables.dp.noise import SecretKey
from trainables.errors import TrialFailed

KEY = SecretKey(b"k" * 32)
VALUES = st.lists(st.integers(-(2**62), 2**62), max_size=8)


def sums(*values, bound=3):
    return Contributions(values=np.array(values, dtype=np.int64), bound=bound)


def releases(noise=2.0, key=KEY):
    return HeldOut(noise=noise, key=key, trial_id="t")


def words(count):
    return (hashlib.blake2b(f"{n}".encode()).digest() for n in range(count))


@given(VALUES, st.integers(-(2**62), 2**62), st.integers(1, 10))
def test_one_unit_more_moves_a_sum_by_at_most_its_bound(values, other, bound):
    before, after = sums(*values, bound=bound), sums(*values, other, bound=bound)
    assert 0 <= after.sum - before.sum <= bound


@given(VALUES, st.integers(-(2**62), 2**62))
def test_with_the_same_key_a_unit_moves_what_is_released_by_no_more(values, other):
    found = [
        releases().release("test", {"errors": sums(*each)}, epochs=range(2))
        for each in (values, [*values, other])
    ]
    assert 0 <= found[1]["errors"].value - found[0]["errors"].value <= 3
    assert found[0]["errors"].std == found[1]["errors"].std


def test_an_empty_part_is_noise_alone():
    found = releases().release("validation", {"errors": sums()}, epochs=range(1))
    assert found["errors"].value != 0
    assert sums().sum == 0


@pytest.mark.parametrize("std", [0.4, 2.55, 48.0])
def test_noise_is_a_rounded_normal_number(std):
    """Chi-square over the likely values at 1 in 10^6; another size is rejected."""
    drawn = np.array([rounded_gaussian(each, std=std) for each in words(600)])
    width = max(1, round(std / 2))

    def statistic(std):
        edges = np.arange(-3 * width, 3 * width + 1, width) + 0.5
        bounds = np.array([-np.inf, *edges, np.inf])
        expected = len(drawn) * np.diff(norm.cdf(bounds / std))
        seen = np.histogram(drawn, bins=np.clip(bounds, -1e9, 1e9))[0]
        kept = expected > 3
        return ((seen - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum()

    found, degrees = statistic(std)
    assert found < chi2.isf(1e-6, degrees)
    assert statistic(1.4 * std)[0] > chi2.isf(1e-6, degrees)


def test_the_tail_of_the_noise_goes_on():
    """torch's normal numbers end at 5.8 standard deviations."""
    least = bytes(64)
    assert rounded_gaussian(least, std=1.0) < -18
    assert rounded_gaussian(b"\xff" * 64, std=1.0) == -rounded_gaussian(least, std=1.0)


def test_noise_is_calibrated_to_all_sums_of_a_release():
    """mu^2 is the sum of bound^2 / std^2 over its sums: 1 / noise^2 an epoch."""
    made = releases(noise=1.7)
    found = made.release(
        "test",
        {"errors": sums(bound=3), "labels": sums(bound=10)},
        epochs=range(5),
    )
    squares = (3 / found["errors"].std) ** 2 + (10 / found["labels"].std) ** 2
    assert squares == pytest.approx(5 / 1.7**2)
    assert noise_on_sum(1.7, bound=3) == pytest.approx(5.1)


def test_no_two_figures_share_their_noise():
    names = ("errors", "labels", "other")
    found = []
    for key, trial in ((KEY, "t"), (KEY, "u"), (SecretKey(b"l" * 32), "t")):
        made = HeldOut(noise=1e6, key=key, trial_id=trial)
        for part, epochs in (
            ("validation", range(1)),
            ("validation", range(1, 2)),
            ("test", range(1)),
            ("test", range(1, 3)),
        ):
            each = made.release(part, {name: sums() for name in names}, epochs=epochs)
            found += [one.value for one in each.values()]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("again", [range(2), range(1, 3), range(2, 2)])
def test_an_epoch_pays_for_one_release_of_a_part(again):
    made = releases()
    made.release("validation", {"errors": sums()}, epochs=range(2))
    made.release("test", {"errors": sums()}, epochs=range(2))
    with refused("paid for no figure of the validation records", TrialFailed):
        made.release("validation", {"errors": sums()}, epochs=again)
    made.release("validation", {"errors": sums()}, epochs=range(2, 3))


@pytest.mark.parametrize(("num", "noise"), [(60, 0.6), (300, 5.0), (40, 20.0)])
def test_intervals_hold_the_populations_ratio(num, noise):
    """Simulated: sampling and noise together, at most 5 % misses (1 in 10^4 false
    alarms of 400 draws).
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(1, 8, 10_000)
    errors = np.minimum(rng.binomial(labels, 0.15), 3)
    truth = errors.sum() / labels.sum()
    stds = [noise_on_sum(noise, bound=each, num_sums=2) for each in (3, 10)]
    misses = 0
    for _ in range(400):
        drawn = rng.integers(len(labels), size=num)
        found = [
            Released(value=int(each[drawn].sum() + round(rng.normal(0, std))), std=std)
            for each, std in zip((errors, labels), stds, strict=True)
        ]
        ratio, low, high = ratio_interval(*found, bounds=(3, 10), least=0.1 * num)
        assert 0 <= low <= ratio <= high
        misses += not low <= truth <= high
    assert misses <= 400 * 0.05 + 3.7 * math.sqrt(400 * 0.05)


def test_noise_widens_an_interval():
    known = [Released(value=value, std=0.0) for value in (40, 500)]
    noised = [Released(value=value, std=9.0) for value in (40, 500)]
    few = [Released(value=0, std=9.0), noised[1]]
    widths = [
        high - low
        for _, low, high in (
            ratio_interval(*each, bounds=(3, 10), least=20.0)
            for each in (known, noised, few)
        )
    ]
    assert widths[1] > widths[0]
    assert widths[2] > 0.04  # of no error by chance of the noise

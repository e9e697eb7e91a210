"""The histogram of prompts: every count gets independent noise of the stated scale.

False-alarm rate of each statistical comparison: 1e-6; the key is fixed.
"""

import numpy as np
import pytest
import torch
from scipy.stats import chi2, norm

from tests.refusals import refused
from trainables.dp.noise import add_noise_, public_key
from trainables.generation.histogram import add_noise, counts_of

KEY = public_key(0, "histogram")
MANY = {
    f"bin {number}": 1e6 for number in range(20_000)
}  # so large that none is cut at 0


def noise_of(std, trial_id="t"):
    return (
        np.array(list(add_noise(MANY, std=std, key=KEY, trial_id=trial_id).values()))
        - 1e6
    )


def test_each_record_counts_in_its_bin_and_one_without_a_bin_nowhere():
    assert counts_of(["a", "b", "a", "c"], ["a", "b", "z"]) == {
        "a": 2.0,
        "b": 1.0,
        "z": 0.0,
    }
    with refused("at least one public prompt"):
        counts_of(["a"], [])


def test_every_count_has_noise_of_the_stated_scale():
    """The first and the last too; 2/3 and 3/2 of the scale are rejected."""
    found, n = noise_of(2.0), len(MANY)
    assert (found != 0).all()
    for scale, accepted in ((2.0, True), (2.0 * 2 / 3, False), (2.0 * 3 / 2, False)):
        statistic = float(np.square(found).sum()) / scale**2
        assert (chi2.ppf(5e-7, n) < statistic < chi2.isf(5e-7, n)) == accepted


def test_counts_and_trials_do_not_share_their_noise():
    found, other = noise_of(2.0), noise_of(2.0, "another")
    assert np.array_equal(found, noise_of(2.0))
    for one, two in (
        (found, other),
        (found[:-1], found[1:]),
        (found[:10_000], found[10_000:]),
    ):
        correlation = float(one @ two) / np.sqrt(float(one @ one) * float(two @ two))
        assert abs(correlation) * len(one) ** 0.5 < norm.isf(5e-7)


def test_noise_on_a_count_does_not_depend_on_the_counts_and_none_is_negative():
    few = add_noise(dict.fromkeys("abcdefgh", 0.0), std=5.0, key=KEY, trial_id="t")
    more = add_noise(dict.fromkeys("abcdefgh", 1e6), std=5.0, key=KEY, trial_id="t")
    assert min(few.values()) == 0.0
    for name, value in few.items():
        assert value == pytest.approx(max(0.0, more[name] - 1e6), abs=1e-6)


def test_the_noise_is_of_a_stream_that_names_its_purpose():
    """A trial's other draws from the key are of other streams, whatever the trial is
    called.
    """
    values = torch.zeros(5, dtype=torch.float64)
    add_noise_(
        values, stream=KEY.stream("histogram", "t"), segments=[(slice(0, 5), 1.0)]
    )
    found = add_noise(dict.fromkeys("abcde", 1e6), std=1.0, key=KEY, trial_id="t")
    assert list(found.values()) == (values + 1e6).tolist()

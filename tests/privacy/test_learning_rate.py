"""A learning rate from the noise: the same total noise for any n, epsilon and T."""

import math

import numpy as np
import pytest

from tests.refusals import refused
from trainables.config import parse
from trainables.privacy.from_config import build
from trainables.privacy.learning_rate import learning_rate_of
from trainables.sections import TotalNoise


def config(**privacy):
    return {
        "engine": "dp_sgd",
        "data": {"name": "atis"},
        "privacy": {"sampling": "full", "max_grad_norm": 0.5, "noise_multiplier": 6.0} | privacy,
        "training": {"steps": 100, "learning_rate": {"total_noise": 0.47}},
    }


@pytest.mark.parametrize("steps", [10, 100])
@pytest.mark.parametrize(("n", "z", "clip"), [(2_463, 6.0, 0.5), (10_000, 2.0, 1.0)])
def test_all_steps_together_add_the_stated_noise(n, z, clip, steps):
    """The sum of T draws at the rate found has the standard deviation asked for, within 3 %: the
    chance of a false alarm is below 1e-6 (chi-square of 50,000 degrees of freedom)."""
    fields = config(noise_multiplier=z, max_grad_norm=clip)
    fields["training"] |= {"steps": steps}
    mechanism = build(parse(fields), num_records=n)
    rate = learning_rate_of(TotalNoise(total_noise=0.2), mechanism)
    draws = np.random.default_rng(0).normal(scale=z * clip, size=(steps, 50_000))
    assert math.isclose((rate * draws / n).sum(0).std(), 0.2, rel_tol=0.03)


@pytest.mark.parametrize("calibration", ["paper", "central"])
def test_of_micro_batches_too(calibration):
    """A step divides by M, and in the paper's calibration the noises of N workers are added."""
    fields = config(noise_calibration=calibration, sampling="poisson")
    fields |= {"engine": "edp_sgd"}
    fields["training"] |= {"expected_batch_size": 64, "num_workers": 8}
    mechanism = build(parse(fields), num_records=2_463)
    rate = learning_rate_of(TotalNoise(total_noise=0.2), mechanism)
    each = 6.0 * 0.5 / (8 if calibration == "paper" else math.sqrt(8))
    draws = np.random.default_rng(0).normal(scale=each, size=(100, 8, 20_000))
    assert math.isclose((rate * draws.sum(1) / 8).sum(0).std(), 0.2, rel_tol=0.04)


def test_a_number_stays():
    mechanism = build(parse(config()), num_records=100)
    assert learning_rate_of(0.3, mechanism) == 0.3


@pytest.mark.parametrize(
    "fields", [{"engine": "sgd", "privacy": {}}, config(noise_multiplier=0)], ids=["sgd", "silent"]
)
def test_without_noise_a_rate_must_be_a_number(fields):
    training = {"learning_rate": {"total_noise": 0.47}}
    with refused(r"training\.learning_rate to be a number"):
        parse({**fields, "training": training if fields["engine"] == "sgd" else fields["training"]})

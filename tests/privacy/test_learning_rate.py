"""A learning rate from the noise: the same total noise for any n, epsilon and T."""

import math

import pytest

from tests.refusals import refused
from trainables.config.learning_rate import learning_rate_of
from trainables.config.mechanism import build
from trainables.config.sections import TotalNoise
from trainables.config.trial import parse


def config(**privacy):
    return {
        "engine": "dp_sgd",
        "data": {"name": "atis"},
        "privacy": {"sampling": "full", "max_grad_norm": 0.5, "noise_multiplier": 6.0}
        | privacy,
        "training": {"steps": 100, "learning_rate": {"total_noise": 0.47}},
    }


@pytest.mark.parametrize("steps", [10, 100])
@pytest.mark.parametrize(("n", "z", "clip"), [(2_463, 6.0, 0.5), (10_000, 2.0, 1.0)])
def test_all_steps_together_add_the_stated_noise(n, z, clip, steps):
    """T steps with noise z C / n each: variances add up."""
    fields = config(noise_multiplier=z, max_grad_norm=clip)
    fields["training"] |= {"steps": steps}
    rate = learning_rate_of(
        TotalNoise(total_noise=0.2), build(parse(fields), num_records=n)
    )
    assert rate * math.sqrt(steps) * z * clip / n == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("calibration", "on_sum"), [("paper", 3 / math.sqrt(8)), ("central", 3)]
)
def test_of_micro_batches_too(calibration, on_sum):
    """A step divides by M = 8, and in the paper's calibration the noises of N workers
    are added.
    """
    fields = config(noise_calibration=calibration, sampling="poisson")
    fields |= {"engine": "edp_sgd"}
    fields["training"] |= {"expected_batch_size": 64, "num_workers": 8}
    rate = learning_rate_of(
        TotalNoise(total_noise=0.2), build(parse(fields), num_records=2_463)
    )
    assert rate * 10 * on_sum / 8 == pytest.approx(0.2)


def test_a_number_stays():
    assert learning_rate_of(0.3, build(parse(config()), num_records=100)) == 0.3


@pytest.mark.parametrize(
    "fields",
    [{"engine": "sgd", "privacy": {}}, config(noise_multiplier=0)],
    ids=["sgd", "silent"],
)
def test_without_noise_a_rate_must_be_a_number(fields):
    training = {"learning_rate": {"total_noise": 0.47}}
    with refused(r"training\.learning_rate to be a number"):
        parse(
            {
                **fields,
                "training": training
                if fields["engine"] == "sgd"
                else fields["training"],
            }
        )

"""The contract of every noise decay of the shelf."""

import math

import pytest

from trainables import catalogue
from trainables.config.mechanism import build_from
from trainables.config.trial import NoiseDecay, PrivacyConfig, TrainingConfig

_NAMES = catalogue.names("schedules")


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("tau", [0.0, 0.02, 0.5, 3.0])
def test_it_begins_at_one_and_stays_above_zero(name, tau):
    """z0 is the noise of epoch 0, and a decay of rate 0 is none."""
    factor = catalogue.entry("schedules", name).factor
    assert factor(0, tau=tau) == 1.0
    values = [factor(epoch, tau=tau) for epoch in range(30)]
    assert all(0 < value < math.inf for value in values)
    assert values == [factor(epoch, tau=tau) for epoch in range(30)], "a pure function"
    if tau == 0:
        assert set(values) == {1.0}


@pytest.mark.parametrize("name", _NAMES)
def test_a_mechanism_reads_it(name):
    tau = 0.0 if name == "none" else 0.3
    built = build_from(
        "edp_sgd",
        PrivacyConfig(noise_multiplier=2.0, noise_decay=NoiseDecay(kind=name, tau=tau)),
        training=TrainingConfig(epochs=4, num_workers=1),
        num_records=2_560,
    )
    factor = catalogue.entry("schedules", name).factor
    noise = [built.noise_multiplier_at(epoch) for epoch in range(4)]
    assert noise == pytest.approx([2.0 * factor(epoch, tau=tau) for epoch in range(4)])
    assert built.first(3).noise_decay == built.noise_decay[:3]
    effective = [built.effective_noise_multiplier_at(epoch) for epoch in range(4)]
    assert effective == pytest.approx([z / 2 for z in noise]), "2 C is the sensitivity"

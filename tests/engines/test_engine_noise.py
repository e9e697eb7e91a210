"""The law of the noise: scale in every group, independence, what is said of it; wrong
scales fail. False-alarm rate of each comparison: 1e-6 (chi-square for scales, normal
for correlations).
"""

import math

import engine_checks as checks
import pytest
import torch
from engine_checks import (
    SIZE,
    Meeting,
    alphas,
    check_noise_scale,
    engine_on,
    gradients,
    mechanism,
)

from trainables.dp.noise import SecretKey

Z, C = 0.8, 1.5
NOISE = {"noise_multiplier": Z, "max_grad_norm": C}


def central(**more):
    return mechanism(noise_calibration="central", **NOISE, **more)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_paper_noise_is_c_z_over_root_n_on_the_sum(world_size):
    """Each of 4 workers adds C z / 4; variances add, so the sum has C z / 2, however
    many processes play the workers. Of dp_sgd's one, C z.
    """
    check_noise_scale(mechanism(**NOISE), [C * Z / 2] * 3, world_size=world_size)
    check_noise_scale(mechanism("dp_sgd", **NOISE), [C * Z] * 3, world_size=world_size)


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("microbatch_size", [1, 2, 4])
def test_central_noise_is_c_z_on_the_sum(world_size, microbatch_size):
    check_noise_scale(
        central(microbatch_size=microbatch_size), [C * Z] * 3, world_size=world_size
    )


def test_central_noise_follows_alpha_and_paper_noise_does_not():
    """Before the rescale against after it."""
    check_noise_scale(
        central(group_scale="public"), [C * Z * a for a in alphas(gradients(4))]
    )
    check_noise_scale(mechanism(group_scale="public", **NOISE), [C * Z / 2] * 3)
    engine = engine_on(central(), gradients(4))
    engine._set_scale(torch.tensor([1.0, 2.0, 2.0]))
    assert engine._segments(2.0) == [(slice(0, 64), 2.0), (slice(64, 448), 4.0)]


def test_noise_decays_by_the_epoch():
    mech = central(noise_decay={"kind": "exponential", "tau": 0.5})
    engine = engine_on(mech, gradients(4), [[]])
    engine.step(2, 0)
    std = float(engine.released.std()) * mech.num_microbatches
    assert std == pytest.approx(C * Z * 2.718281828**-1.0, rel=0.15)


@pytest.mark.parametrize("wrong", [2 / 3, 3 / 2])
def test_the_check_of_the_scale_rejects_wrong_scales(wrong):
    with pytest.raises(AssertionError, match="std"):
        check_noise_scale(mechanism(**NOISE), [C * Z / 2 * wrong] * 3)


@pytest.mark.parametrize("calibration", ["paper", "central"])
def test_noise_is_independent_across_steps_coordinates_and_processes(calibration):
    checks.check_noise_is_independent(mechanism(noise_calibration=calibration))


def test_every_draw_is_of_a_stream_that_names_it(monkeypatch):
    """Its purpose, trial, attempt, who draws and when: no number of a key is drawn
    twice.
    """
    asked, real = [], SecretKey.stream

    def stream(self, *names):
        asked.append(names)
        return real(self, *names)

    monkeypatch.setattr(SecretKey, "stream", stream)
    mech, own = mechanism(**NOISE), {"trial_id": "t", "attempt": 3}
    Meeting(2).run(
        lambda comm: engine_on(mech, gradients(200), comm=comm, **own).run_epoch(1)
    )
    steps = range(mech.steps_until(1), mech.steps_until(2))
    noise = [("noise", "t", 3, worker, step) for worker in (0, 2) for step in steps]
    coins = [("coins", "clipping check", "t", 3, rank, 1) for rank in (0, 1)]
    assert sorted(asked, key=str) == sorted(noise + coins, key=str)


@pytest.mark.parametrize(
    ("mech", "std"),
    [
        (mechanism(**NOISE), C * Z / 2),
        (mechanism("dp_sgd", **NOISE), C * Z),
        (central(), C * Z),
        (central(noise_decay={"kind": "linear", "tau": 1.0}), C * Z / 2),
    ],
)
def test_the_reported_noise_norm_is_that_of_the_noise(mech, std):
    """Which the checks of its scale have measured."""
    said = engine_on(mech, gradients(200)).run_epoch(1)["noise_norm"]
    assert said == pytest.approx(std * math.sqrt(SIZE) / mech.num_microbatches)


def test_no_norm_is_reported_without_noise():
    assert "noise_norm" not in engine_on(mechanism("sgd"), gradients(200)).run_epoch(0)

"""The law of the noise: scale in every group, independence, and that other scales are rejected.

False-alarm rate of each comparison: 1e-6 (chi-square for scales, normal for correlations).
"""

from __future__ import annotations

import engine_checks as checks
import pytest
from engine_checks import alphas, gradients, mechanism

Z, C = 0.8, 1.5
NOISE = {"noise_multiplier": Z, "max_grad_norm": C}


def central(**more: object):
    return mechanism(noise_calibration="central", **NOISE, **more)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_paper_noise_is_c_z_over_root_n_on_the_sum(world_size: int) -> None:
    """Each of 4 workers adds C z / 4; variances add, so the sum has C z / 2, however many
    processes play the workers.
    """
    checks.check_noise_scale(mechanism(**NOISE), [C * Z / 2] * 3, world_size=world_size)


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("microbatch_size", [1, 2, 4])
def test_central_noise_is_c_z_on_the_sum(world_size: int, microbatch_size: int) -> None:
    mech = central(microbatch_size=microbatch_size)
    checks.check_noise_scale(mech, [C * Z] * 3, world_size=world_size)


def test_dp_sgd_noise_is_c_z_on_the_sum() -> None:
    checks.check_noise_scale(mechanism("dp_sgd", **NOISE), [C * Z] * 3)


def test_central_noise_follows_alpha_and_paper_noise_does_not() -> None:
    """Before the rescale against after it."""
    alpha = alphas(gradients(4))
    checks.check_noise_scale(central(group_scale="public"), [C * Z * a for a in alpha])
    checks.check_noise_scale(mechanism(group_scale="public", **NOISE), [C * Z / 2] * 3)


def test_noise_decays_by_the_epoch() -> None:
    mech = central(noise_decay={"kind": "exponential", "tau": 0.5})
    engine = checks.engine_on(mech, gradients(4), [[]])
    engine.step(2, 0)
    std = float(engine.released.std()) * mech.num_microbatches
    assert std == pytest.approx(C * Z * 2.718281828**-1.0, rel=0.15)


@pytest.mark.parametrize("wrong", [2 / 3, 3 / 2])
def test_the_check_of_the_scale_rejects_wrong_scales(wrong: float) -> None:
    with pytest.raises(AssertionError, match="std"):
        checks.check_noise_scale(mechanism(**NOISE), [C * Z / 2 * wrong] * 3)


@pytest.mark.parametrize("calibration", ["paper", "central"])
def test_noise_is_independent_across_steps_coordinates_and_processes(calibration: str) -> None:
    checks.check_noise_is_independent(mechanism(noise_calibration=calibration))

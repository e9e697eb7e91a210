"""An engine's use of a released gradient: the optimiser gets its noise."""

from __future__ import annotations

from typing import Any

import pytest
from engine_checks import WIDTHS, check_noise_scale, engine_on, gradients, mechanism


@pytest.mark.parametrize(
    ("engine", "privacy"),
    [
        ("dp_sgd", {}),
        ("dp_sgd", {"group_scale": "public", "max_grad_norm": 0.7}),
        ("edp_sgd", {"noise_calibration": "central", "group_scale": "public"}),
        ("edp_sgd", {"noise_multiplier": 0.4}),
        ("dp_sgd", {"noise_decay": {"kind": "linear", "tau": 0.5}}),
    ],
)
def test_the_optimiser_gets_the_added_noise(engine: str, privacy: dict[str, Any]) -> None:
    """Of each group, on the mean: what a statistical test finds in what is released."""
    mech = mechanism(engine, **privacy)
    made = engine_on(mech, gradients(4), [[]], public_batch=gradients(4), optimizer="adam_bc")
    made.step(0, 0)
    stds = [std * mech.num_microbatches for std in made._optimizer.noise_stds]
    assert len(stds) == len(WIDTHS)
    check_noise_scale(mech, stds, optimizer="momentum")
    made.step(1, 0)
    factor = 1 / 1.5 if "noise_decay" in privacy else 1.0
    assert made._optimizer.noise_stds[0] * mech.num_microbatches == pytest.approx(stds[0] * factor)


def test_without_noise_there_is_none_to_take_off() -> None:
    made = engine_on(mechanism("sgd"), gradients(4), [[0, 1]], optimizer="adam_bc")
    made.step(0, 0)
    assert not any(made._optimizer.noise_stds)

"""The noise norm that an epoch reports is the norm of the noise that its steps really add."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.engines.engine_checks import engine_on, gradients, mechanism, noise_of

_STEPS = 100  # of 448 coordinates each: the relative standard error of the norm is 0.0033
_TOLERANCE = 0.018  # 5.4 standard errors: a false alarm in about 7e-8 of the runs


@pytest.mark.parametrize(
    ("engine", "fields"),
    [
        ("edp_sgd", {"noise_multiplier": 1.0, "noise_calibration": "paper"}),
        ("edp_sgd", {"noise_multiplier": 0.5, "noise_calibration": "central"}),
        ("dp_sgd", {"noise_multiplier": 2.0, "sampling": "poisson"}),
    ],
)
@pytest.mark.parametrize("max_grad_norm", [0.5, 2.0])
def test_the_reported_noise_norm_is_that_of_the_noise(
    engine: str, fields: dict[str, Any], max_grad_norm: float
) -> None:
    mech = mechanism(engine, max_grad_norm=max_grad_norm, **fields)
    said = engine_on(mech, gradients(200)).run_epoch(0)["noise_norm"]
    drawn = noise_of(mech, steps=_STEPS) / mech.num_microbatches
    measured = float(torch.sqrt((drawn.double() ** 2).sum(dim=1).mean()))
    assert said == pytest.approx(measured, rel=_TOLERANCE)


def test_it_decays_with_the_noise_and_is_absent_without_any() -> None:
    decaying = mechanism(noise_multiplier=1.0, noise_decay={"kind": "linear", "tau": 1.0})
    engine = engine_on(decaying, gradients(200))
    first, second = (engine.run_epoch(epoch)["noise_norm"] for epoch in (0, 1))
    assert second == pytest.approx(first / 2)
    assert "noise_norm" not in engine_on(mechanism("sgd"), gradients(200)).run_epoch(0)

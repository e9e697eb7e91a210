"""An engine's use of a released gradient: the optimiser gets its noise, and the average includes
the weights after each step.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from engine_checks import WIDTHS, check_noise_scale, engine_on, gradients, mechanism

from trainables.engines import Engine


def weights(engine: Engine) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in engine.model.parameters()])


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


@pytest.mark.parametrize("name", ["none", "exponential", "tail"])
def test_the_average_is_of_the_weights_after_each_step(name: str) -> None:
    mech = mechanism(records=64, epochs=2)  # 8 steps
    made = engine_on(mech, gradients(64), iterate_average=name)
    seen = []
    for epoch in range(2):
        for step in range(4):
            made.step(epoch, step)
            seen.append(weights(made).clone())
            with made.averaged_weights():
                within = weights(made).clone()
            assert torch.equal(weights(made), seen[-1])
    expected = {
        "none": seen[-1],
        "tail": torch.stack(seen[4:]).mean(0),
        "exponential": sum(
            (w * s for w, s in zip(_exponential(8), seen, strict=True)), torch.zeros(())
        ),
    }[name]
    torch.testing.assert_close(within, expected, rtol=1e-4, atol=1e-7)


def _exponential(steps: int) -> list[float]:
    """Shares of the iterates in De et al.'s average; the start, 0 here, has the rest."""
    decay = [(1 + t) / (10 + t) for t in range(1, steps + 1)]
    return [(1 - decay[t]) * math.prod(decay[t + 1 :]) for t in range(steps)]


@pytest.mark.parametrize("name", ["exponential", "tail"])
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_restored_engine_averages_on(name: str, epochs: int) -> None:
    """Before and after the tail begins."""
    mech = mechanism(records=64, epochs=3)
    first, second = (engine_on(mech, gradients(64), iterate_average=name) for _ in range(2))
    for epoch in range(epochs):
        first.run_epoch(epoch)
    second.model.load_state_dict(first.model.state_dict())
    second.load_state_dict({k: v.clone() for k, v in first.state_dict().items()})
    found = []
    for engine in (first, second):
        engine.run_epoch(epochs)
        with engine.averaged_weights():
            found.append(weights(engine).clone())
    assert torch.equal(*found)
    assert not torch.equal(found[0], weights(first))

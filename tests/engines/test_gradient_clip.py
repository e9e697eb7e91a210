import pytest
import torch
from engine_checks import Meeting, engine_on, gradients, mechanism, weights_of

from tests.refusals import refused
from trainables.config.trial import parse

RATE = 1e-3  # of `engine_on`


def distance(table, records, **setup):
    """How far one step of momentum SGD moves the weights, by the learning rate."""
    made = engine_on(mechanism("sgd"), table, [records], optimizer="momentum", **setup)
    made.step(0, 0)
    return -weights_of(made) / RATE


def test_a_large_mean_gradient_is_scaled_down_and_a_small_one_stays():
    table = gradients(4, scale=10)
    mean, same = table[:3].mean(0), distance(table, [0, 1, 2])
    found = distance(table, [0, 1, 2], gradient_clip_norm=2.0)
    torch.testing.assert_close(found, mean * 2 / mean.norm(), rtol=1e-4, atol=1e-6)
    bound = float(table.norm(dim=1).max()) + 1
    assert torch.equal(distance(table, [0, 1, 2], gradient_clip_norm=bound), same)


def test_processes_scale_by_the_norm_of_the_sum():
    """Not by that of their own share, or their weights would differ."""
    mech = mechanism("sgd", records=64)
    table = gradients(64, scale=10)

    def work(comm):
        made = engine_on(
            mech, table, comm=comm, optimizer="momentum", gradient_clip_norm=0.5
        )
        made.step(0, 0)
        return weights_of(made)

    first, second = Meeting(2).run(work)
    assert torch.equal(first, second)
    assert float(first.norm()) == pytest.approx(0.5 * RATE, rel=1e-4)


@pytest.mark.parametrize("engine", ["dp_sgd", "edp_sgd"])
def test_a_private_engine_has_its_own_clip(engine):
    with refused(f"privacy.max_grad_norm, got 5 with engine={engine}"):
        parse({"engine": engine, "training": {"gradient_clip_norm": 5}})

"""bf16 products: rounding changes the gradient a little and the clipping bound not at
all.
"""

import pytest
import torch
from engine_checks import OneBatch, engine_of

from tests.models._builds import ADAPTED, MODELS, build_model, random_batch, trained
from trainables.dp.engines.gradient import GradientSource
from trainables.dp.flat import FlatGradient, Layout
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.lstm import BiLstm
from trainables.dp.layers.packing import time_major
from trainables.dp.layers.precision import passes_in
from trainables.dp.layers.recorder import Recorder, recording

NUM_RECORDS = 5
CPU = torch.device("cpu")


def source_of(model, precision):
    source = GradientSource(model)
    source.precision = precision
    return source


def contribution(model, batch, record, *, clip, alphas):
    """What record `record` adds to a clipped sum, every other one having weight 0; its
    norm.
    """
    out = FlatGradient(Layout.of(model))
    weights = torch.zeros(NUM_RECORDS)
    weights[record] = 1.0
    norms, _ = source_of(model, "bf16").add_clipped(
        batch,
        weights,
        out,
        unit_of_record=torch.arange(NUM_RECORDS),
        num_units=NUM_RECORDS,
        max_grad_norm=clip,
        group_scale=alphas,
    )
    return out.data.double(), norms[record].double()


@pytest.mark.parametrize("name", MODELS)
def test_what_a_record_adds_is_within_the_bound_to_float32_rounding(name):
    """And its norm is that of what is added: to 1e-4, where bf16 itself has 4e-3."""
    torch.manual_seed(0)
    model = build_model(name)
    model.begin_step("a", 1)
    batch = random_batch(model, NUM_RECORDS, seed=3)
    alphas = torch.rand(len(trained(model))) + 0.5
    scale = torch.cat(
        [
            a.double().repeat(p.numel())
            for a, p in zip(alphas, trained(model), strict=True)
        ]
    )
    for record in range(NUM_RECORDS):
        added, norm = contribution(model, batch, record, clip=1e9, alphas=alphas)
        torch.testing.assert_close((added / scale).norm(), norm, rtol=1e-4, atol=0)
        clip = float(norm) / 3
        added, _ = contribution(model, batch, record, clip=clip, alphas=alphas)
        assert clip * (1 - 1e-4) <= float((added / scale).norm()) <= clip * (1 + 1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_is_rounded_and_close(name, monkeypatch):
    """Not equal to float32's, and within 3 % of it, of three layers of foreign code 6;
    losses too. Sums and losses are float32.
    """
    found = []
    for precision in ("fp32", "bf16"):
        model = build_model(name)
        model.begin_step("a", 1)
        out = FlatGradient(Layout.of(model))
        batch = random_batch(model, NUM_RECORDS, seed=3)
        if precision == "bf16":  # as foreign code may leave them
            own = model.losses
            monkeypatch.setattr(
                model, "losses", lambda batch, own=own: own(batch).bfloat16()
            )
        losses = source_of(model, precision).add(batch, torch.ones(NUM_RECORDS), out)
        assert losses.dtype == out.data.dtype == torch.float32
        found.append((out.data.clone(), losses))
    (exact, exact_losses), (rounded, losses) = found
    assert (
        1e-4
        < float((rounded - exact).norm() / exact.norm())
        < (0.06 if name in ADAPTED else 0.03)
    )
    torch.testing.assert_close(losses, exact_losses, rtol=2e-2, atol=0)


def test_only_products_are_rounded():
    """A linear map gives bfloat16, without a tape the same bits; a recurrent layer its
    float32.
    """
    layout = time_major(torch.tensor([3, 2]))
    x, layer = torch.randn(5, 4), Linear(4, 3)
    with passes_in("bf16", CPU):
        plain = layer(x, layout.rows)
        assert plain.dtype == torch.bfloat16
        with recording(Recorder()):
            torch.testing.assert_close(layer(x, layout.rows), plain, rtol=0, atol=0)
        assert BiLstm(4, 3)(x, layout).dtype == torch.float32
    assert Linear(4, 3)(x, layout.rows).dtype == torch.float32


def test_a_step_in_bf16_keeps_weights_and_moments_in_float32():
    """With the engine as a trial makes it; the step differs from float32's, and
    little.
    """
    after = []
    for precision in ("fp32", "bf16"):
        model = build_model("bert", dropout=0.0)
        engine = engine_of(
            "edp_sgd",
            model,
            OneBatch(random_batch(model, NUM_RECORDS, seed=3)),
            privacy={"noise_multiplier": 0.0, "max_grad_norm": 1e6},
            training={"precision": precision},
        )
        engine.step(0, 0)
        after.append(engine.released.clone())
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        assert engine.state_dict()["optimizer.0.exp_avg"].dtype == torch.float32
    assert 1e-4 < float((after[0] - after[1]).norm() / after[0].norm()) < 3e-2

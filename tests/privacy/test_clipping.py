"""The flat buffer, the hook, group scales, and the audit's statistics."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from tests.refusals import refused
from trainables.dp import scaling
from trainables.dp.audit.audit import (
    distinguish,
    effective_multiplier,
    epsilon_lower_bound,
)
from trainables.dp.clipping import clip_factor
from trainables.dp.flat import FlatGradient, Layout
from trainables.dp.gradient_hook import GradientHook
from trainables.dp.mechanism import LEAST_GRAD_NORM


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 2)
        self.b = nn.Linear(2, 1)
        self.idle = nn.Parameter(torch.ones(4))
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

    def losses(self, batch):
        return self.b(torch.tanh(self.a(batch))).squeeze(1)


@pytest.mark.parametrize("excess", [0.5, 1.5, 1e3])
def test_the_least_clip_norm_holds(excess):
    """Of a hundred thousand numbers, whose squares are near the end of float32."""
    torch.manual_seed(0)
    direction = torch.randn(100_000, dtype=torch.float64)
    model = nn.Module()
    model.w = nn.Parameter(torch.zeros(len(direction)))
    gradient = FlatGradient(Layout.of(model))
    gradient.data.copy_(direction / direction.norm() * (LEAST_GRAD_NORM * excess))
    one = torch.ones(1, dtype=torch.float64)
    GradientHook(max_grad_norm=LEAST_GRAD_NORM, group_scale=one).clip_(gradient)
    assert float(gradient.data.double().norm()) == pytest.approx(
        LEAST_GRAD_NORM * min(1.0, excess), rel=1e-4
    )


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_layout_has_every_trainable_parameter_once(elsewhere):
    """And collects the gradients that a library has put `elsewhere` than in the
    views.
    """
    net = Net()
    layout = Layout.of(net)
    assert layout.names == ("idle", "a.weight", "a.bias", "b.weight", "b.bias")
    assert layout.size == 4 + 6 + 2 + 2 + 1
    flat = FlatGradient(layout)
    flat.attach()
    if elsewhere:
        net.zero_grad(set_to_none=True)
    net.losses(torch.ones(1, 3)).sum().backward()
    flat.collect()
    assert flat.data[layout.segment(0)].tolist() == [0.0] * 4
    assert torch.equal(flat.views[net.a.weight], net.a.weight.grad)
    assert torch.equal(flat.views[net.b.bias], torch.ones(1))
    assert flat.data[layout.segment(1)].norm() > 0


def test_mixed_parameters_are_refused_by_name():
    net = Net()
    net.b.double()
    with refused(r"got b\.weight as torch\.float64"):
        Layout.of(net)
    for parameter in net.parameters():
        parameter.requires_grad = False
    with refused("trainable parameters, got none"):
        Layout.of(net)


@pytest.mark.parametrize(
    "length", [0.0, 1e-30, 0.5, 1.0, 7.0, 1e15, 1e30, math.inf, math.nan]
)
def test_the_hook_bounds_the_norm_of_the_buffer(length):
    """In scaled space at most C; direction kept; not finite becomes zero, an overflow
    too.
    """
    layout = Layout.of(Net())
    alpha = scaling.from_norms(torch.arange(1.0, 6.0))
    flat = FlatGradient(layout)
    flat.data.copy_(torch.arange(float(layout.size)))
    flat.data.mul_(length / float(flat.data.norm()))
    before = flat.data.clone()
    norm = GradientHook(max_grad_norm=1.0, group_scale=alpha).clip_(flat)
    scaled = float((flat.group_norms() / alpha).norm())
    assert scaled <= 1 + 1e-5
    if math.isfinite(float(norm)):
        assert scaled == pytest.approx(min(1.0, float(norm)), rel=1e-5)
        assert torch.allclose(flat.data * max(1.0, float(norm)), before, rtol=1e-5)
    else:
        assert not flat.data.any()


@pytest.mark.parametrize("size", [5, 256, 257, 1_000_003])
def test_norms_of_many_numbers_are_exact_enough_for_the_bound(size):
    """One large number among many small: a plain float32 norm is too small by 2 parts
    in 10^3.
    """
    big = nn.Module()
    big.v, big.w = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(size))
    flat = FlatGradient(Layout.of(big))
    flat.data.fill_(1e-3)
    flat.data[3] = 1.0
    exact = [float(flat.data[:3].double().norm()), float(flat.data[3:].double().norm())]
    assert flat.group_norms().tolist() == pytest.approx(exact, rel=1e-6)
    assert flat.group_norms().dtype == torch.float64


def test_a_factor_never_lets_through_more_than_the_clip_norm():
    """Up to the end of float32, whose smallest numbers have few digits."""
    norms = torch.logspace(-3, 38, 4_001)
    for bound in (1e-12, 1e-3, 1.0, 1e3):
        factors = clip_factor(norms, bound)
        assert float((factors.double() * norms.double()).max()) <= bound * (1 + 1e-6)
        assert (factors[norms <= bound] == 1).all()
        assert (factors >= 0).all()


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e9])
def test_group_scales_are_normalised_and_floored(size):
    """They depend on the gradient's direction, not on its size."""
    alpha = scaling.from_norms(
        size * torch.tensor([3.0, 4.0, 0.0], dtype=torch.float64)
    )
    expected = torch.tensor([0.6, 0.8, 1e-3 / 3**0.5], dtype=torch.float64)
    torch.testing.assert_close(alpha, expected / expected.norm(), rtol=1e-6, atol=0)
    assert float(alpha.square().sum()) == pytest.approx(1.0, abs=1e-12)
    for nothing in (
        torch.zeros(4),
        torch.tensor([1.0, math.nan]),
        torch.tensor([math.inf, 1.0]),
    ):
        alpha = scaling.from_norms(nothing)
        assert alpha.tolist() == pytest.approx([len(nothing) ** -0.5] * len(nothing))
        assert scaling.from_norms(nothing, unit=False).tolist() == [1.0] * len(nothing)


def test_the_multiplier_is_estimated_with_an_interval_that_covers_it():
    """Noise 2 in one group, 4 in the other, shift (3, 4): mu^2 = 9/4 + 16/16, so
    0.5547. In 300 repetitions at a false-alarm rate of 5 % at most 5 % + 4 sigma (30)
    miss.
    """
    rng = np.random.default_rng(0)
    groups, truth = [slice(0, 20), slice(20, 60)], 1 / math.sqrt(9 / 4 + 1)
    scale = np.concatenate([np.full(20, 2.0), np.full(40, 4.0)])
    shift = np.zeros(60)
    shift[0], shift[20] = 3.0, 4.0
    missed = 0
    for _ in range(300):
        noise = rng.normal(size=(30, 60)) * scale
        found = effective_multiplier(
            noise, noise + shift, groups=groups, false_alarm=0.025
        )
        missed += not found.low <= truth <= found.high
        assert found.low <= found.estimate <= found.high
        for wrong in (2 / 3, 3 / 2):
            assert not found.low <= truth * wrong <= found.high
    assert missed <= 30


def test_the_multiplier_of_a_step_without_noise_or_shift():
    still = np.zeros((10, 4))
    moved = still + np.array([1.0, 0, 0, 0])
    groups = [slice(0, 4)]
    assert effective_multiplier(still, moved, groups=groups, false_alarm=0.1).high == 0
    assert (
        effective_multiplier(still, still, groups=groups, false_alarm=0.1).low
        == math.inf
    )
    assert distinguish(still, moved, groups=groups, delta=0.0, false_alarm=0.5) > 1


@pytest.mark.parametrize(
    ("tp", "p", "fp", "n", "expected"),
    [
        (90, 100, 10, 100, 1.5422),
        (500, 500, 0, 500, 4.9056),
        (100, 1000, 10, 1000, 1.5004),
        (50, 1000, 1, 1000, 1.9045),
        (55, 100, 50, 100, 0.0),
    ],
)
def test_the_bound_on_epsilon(tp, p, fp, n, expected):
    found = epsilon_lower_bound(
        true_positives=tp,
        positives=p,
        false_positives=fp,
        negatives=n,
        delta=0.0,
        false_alarm=0.05,
    )
    assert found == pytest.approx(expected, abs=5e-5)


def test_the_bound_is_valid_and_can_speak():
    """mu = 1, whose epsilon at delta 1e-5 is 4.377: never passed in 100 runs at 5 %,
    yet not 0; with almost no noise the bound passes any small claim.
    """
    rng = np.random.default_rng(1)
    groups = [slice(0, 5)]
    shift = np.array([1.0, 0, 0, 0, 0])
    bounds = []
    for _ in range(100):
        noise = rng.normal(size=(800, 5))
        bounds.append(
            distinguish(
                noise, noise + shift, groups=groups, delta=1e-5, false_alarm=0.05
            )
        )
    assert max(bounds) < 4.377
    assert np.median(bounds) > 0.3
    noise = rng.normal(size=(800, 5)) * 0.01
    assert (
        distinguish(noise, noise + shift, groups=groups, delta=1e-5, false_alarm=0.05)
        > 4.0
    )


def test_the_bound_is_tested_by_calls_that_did_not_choose_it():
    """Both sides of one law, in many more dimensions than calls: any sample of them can
    be separated by a direction chosen on it, and no fresh one can. The truth is epsilon
    0, so a bound above it is a false alarm: none in 20 at 1e-6 each.
    """
    rng = np.random.default_rng(2)
    for _ in range(20):
        left, right = rng.normal(size=(2, 100, 3000))
        sides = {"groups": [slice(0, 3000)], "delta": 1e-5, "false_alarm": 1e-6}
        assert distinguish(left, right, **sides) == 0.0
        # Tested on the half that chose it, the bound is far above 0.
        chosen_on = [np.concatenate([side[:50], side[:50]]) for side in (left, right)]
        assert distinguish(*chosen_on, **sides) > 0.5


def test_the_audits_figures_are_what_they_were():
    """Golden values of the estimators, whose laws the tests above check: noise that
    does not cancel, a shift that is lost in it, groups of unlike scale.
    """
    rng = np.random.default_rng(3)
    two = [slice(0, 3), slice(3, 6)]
    left = rng.normal(size=(20, 6))
    right = left * 0.9 + 0.1 * rng.normal(size=(20, 6)) + np.array([3, 0, 0, 1, 0, 0.0])
    found = effective_multiplier(left, right, groups=two, false_alarm=0.01)
    expected = (0.2447795230, 0.3232531311, 0.4545942150)
    assert (found.low, found.estimate, found.high) == pytest.approx(expected, rel=1e-9)
    lost = left + 0.01 * rng.normal(size=(20, 6))
    found = effective_multiplier(left, lost, groups=two, false_alarm=0.01)
    assert found.low == pytest.approx(107.3220425862, rel=1e-9)
    assert found.estimate == found.high == math.inf
    left = rng.normal(size=(400, 4)) * [1, 1, 3, 3]
    right = rng.normal(size=(400, 4)) * [1, 1, 3, 3] + [1.5, 0, 2, 0]
    halves = [slice(0, 2), slice(2, 4)]
    bound = distinguish(left, right, groups=halves, delta=0.01, false_alarm=0.05)
    assert bound == pytest.approx(1.9793651832, rel=1e-9)
    # Few calls, where the first and the last of each half count, and halves differ in
    # size.
    rng = np.random.default_rng(8)
    for calls, expected in ((9, 0.8127650552), (12, 0.0), (31, 1.1126045939)):
        left = rng.normal(size=(calls, 3))
        right = rng.normal(size=(calls, 3)) + np.array([2.5, 0, 1])
        parts = [slice(0, 1), slice(1, 3)]
        bound = distinguish(left, right, groups=parts, delta=0.0, false_alarm=0.5)
        assert bound == pytest.approx(expected, rel=1e-9)

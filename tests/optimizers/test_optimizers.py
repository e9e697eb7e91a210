"""Every optimiser of the shelf against a plain one of torch, and across an interruption."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from tests.refusals import refused
from trainables import catalogue
from trainables.optimizers.adamw import DECAY
from trainables.privacy.flat import FlatGradient, Layout

NAMES = catalogue.names("optimizers")
RATE = 0.1


def start():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def walk(model, optimizer, steps, *, noise=()):
    optimizer.noise_stds = noise
    layout = Layout.of(model)
    gradient = FlatGradient(layout)
    for step in steps:
        torch.manual_seed(step)
        gradient.data.copy_(torch.randn(layout.size))
        optimizer.learning_rate = RATE / (1 + step)
        optimizer.step(gradient, share=0.5)
        assert all(parameter.grad is None for parameter in model.parameters())
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def make(name, model):
    return catalogue.entry("optimizers", name).make(Layout.of(model), learning_rate=RATE)


@pytest.mark.parametrize("name", NAMES)
def test_an_interruption_changes_nothing(name):
    model = start()
    noise = (0.3, 0.1)
    whole = walk(model, make(name, model), range(6), noise=noise)
    model = start()
    first = make(name, model)
    walk(model, first, range(3), noise=noise)
    kept, state = copy.deepcopy(model.state_dict()), first.state_dict()
    walk(model, first, range(3, 5), noise=noise)  # what is kept does not move on
    model.load_state_dict(kept)
    later = make(name, model)
    later.load_state_dict(state)
    assert torch.equal(walk(model, later, range(3, 6), noise=noise), whole)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_of_another_model_is_refused(name):
    other = nn.Linear(3, 4)
    trained = make(name, other)
    walk(other, trained, range(1), noise=(0.3, 0.1))
    with refused("expected optimiser state of"):
        make(name, start()).load_state_dict(trained.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_may_lie_in_memory_in_any_order(name):
    """A module of own code may hold a transposed tensor."""
    found = []
    for transposed in (None, 0, 1):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 3))
        if transposed is not None:
            weight = model[transposed].weight.detach()
            model[transposed].weight = nn.Parameter(weight.t().contiguous().t())
        found.append(walk(model, make(name, model), range(3), noise=(0.3, 0.1) * 2))
    torch.testing.assert_close(found[1:], [found[0]] * 2)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_the_published_one(name):
    model, reference = start(), start()
    first = [p.detach().clone() for p in reference.parameters()]
    theirs = torch.optim.Adam(reference.parameters(), lr=RATE)
    if name == "momentum":
        theirs = torch.optim.SGD(reference.parameters(), lr=RATE, momentum=0.9)
    ours = make(name, model)
    for step in range(6):
        torch.manual_seed(step)
        numbers = torch.randn(8) * 0.5
        theirs.param_groups[0]["lr"] = RATE / (1 + step)
        for p, part, begin in zip(
            reference.parameters(), numbers.split([6, 2]), first, strict=True
        ):
            p.grad = part.view(p.shape).clone()
            if name == "adamw":
                p.data -= RATE / (1 + step) * DECAY * (p.data - begin)
        theirs.step()
    expected = torch.cat([p.detach().flatten() for p in reference.parameters()])
    torch.testing.assert_close(walk(model, ours, range(6)), expected, rtol=1e-5, atol=1e-6)


def test_adamw_decays_to_the_weights_of_the_first_step():
    """A private start sets them after the optimizer was made; without a gradient nothing moves."""
    model = start()
    optimizer = make("adamw", model)
    with torch.no_grad():
        model.weight.fill_(7.0)
    layout = Layout.of(model)
    optimizer.learning_rate = RATE
    for _ in range(3):
        optimizer.step(FlatGradient(layout), share=0.5)
    assert torch.equal(model.weight, torch.full((2, 3), 7.0))


def test_adam_bc_is_algorithm_1_of_its_paper():
    """Per coordinate, in float64, the floor being what the noise alone leaves of v - phi."""
    model = start()
    w = torch.cat([p.detach().flatten() for p in model.parameters()]).double().numpy()
    # The noise of the two groups differs, and is large beside the gradients.
    std = np.repeat([0.6, 0.1], [6, 2])
    m = v = np.zeros(8)
    for step in range(6):
        torch.manual_seed(step)
        g = torch.randn(8).double().numpy() * 0.5
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        t = step + 1
        share = 0.001 * 0.999 ** np.arange(t) / (1 - 0.999**t)
        floor = np.sqrt(2 * (share**2).sum()) * std**2
        second = np.maximum(v / (1 - 0.999**t) - std**2, floor)
        w = w - RATE / (1 + step) * m / (1 - 0.9**t) / (np.sqrt(second) + 1e-8)
    found = walk(start(), make("adam_bc", start()), range(0))  # nothing moves without a step
    assert torch.equal(found, torch.cat([p.detach().flatten() for p in start().parameters()]))
    found = walk(model, make("adam_bc", model), range(6), noise=(0.6, 0.1))
    np.testing.assert_allclose(found.numpy(), w, rtol=1e-5, atol=1e-6)


def test_adam_bc_steps_by_the_signal_where_adam_steps_by_the_noise():
    """A constant signal of a quarter of the noise: a step of about lr, not of a quarter of it."""
    moved = {}
    for name in ("adam", "adam_bc"):
        model = start()
        optimizer = make(name, model)
        optimizer.learning_rate = 1e-3
        optimizer.noise_stds = (1.0, 1.0)
        gradient = FlatGradient(Layout.of(model))
        torch.manual_seed(0)
        for step in range(4_000):
            if step == 3_000:
                before = [p.detach().clone() for p in model.parameters()]
            gradient.data.normal_().add_(0.25)
            optimizer.step(gradient, share=1.0)
        after = [p.detach() for p in model.parameters()]
        way = torch.cat([(a - b).flatten() for a, b in zip(before, after, strict=True)])
        moved[name] = float(way.mean())
    # sqrt(1 + 1 / 16) of the noise's size is what Adam divides by. Over 8 coordinates the mean of
    # 1,000 gradients is 0.25 within 0.011 (one standard deviation): 5 of them.
    assert moved["adam"] == pytest.approx(0.25 / 1.03, abs=0.06)
    assert 0.6 < moved["adam_bc"] < 1.6


@pytest.mark.parametrize("name", catalogue.names("learning_rates"))
def test_courses_begin_whole_and_never_rise(name):
    factor = catalogue.entry("learning_rates", name).factor
    course = [factor(k / 50) for k in range(50)]
    assert course[0] == 1.0
    assert all(0 < b <= a for a, b in pairwise(course))

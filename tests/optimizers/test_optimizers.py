"""Every optimiser of the shelf against a plain one of torch, and across an interruption."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from trainables import catalogue
from trainables.optimizers._optimizer import Optimizer
from trainables.optimizers.adamw import DECAY
from trainables.privacy.flat import FlatGradient, Layout

NAMES = catalogue.names("optimizers")
RATE = 0.1


def start() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def walk(model: nn.Module, optimizer: Optimizer, steps: range) -> torch.Tensor:
    layout = Layout.of(model)
    gradient = FlatGradient(layout)
    for step in steps:
        torch.manual_seed(step)
        gradient.data.copy_(torch.randn(layout.size))
        optimizer.learning_rate = RATE / (1 + step)
        optimizer.step(gradient, share=0.5)
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def made(name: str, model: nn.Module) -> Optimizer:
    return catalogue.entry("optimizers", name).make(Layout.of(model), learning_rate=RATE)


@pytest.mark.parametrize("name", NAMES)
def test_an_interruption_changes_nothing(name: str) -> None:
    model = start()
    whole = walk(model, made(name, model), range(6))
    model = start()
    first = made(name, model)
    walk(model, first, range(3))
    later = made(name, model)
    later.load_state_dict(first.state_dict())
    assert torch.equal(walk(model, later, range(3, 6)), whole)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_the_published_one(name: str) -> None:
    model, reference = start(), start()
    first = [p.detach().clone() for p in reference.parameters()]
    theirs: torch.optim.Optimizer = torch.optim.Adam(reference.parameters(), lr=RATE)
    if name == "momentum":
        theirs = torch.optim.SGD(reference.parameters(), lr=RATE, momentum=0.9)
    ours = made(name, model)
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


@pytest.mark.parametrize("name", catalogue.names("learning_rates"))
def test_courses_begin_whole_and_never_rise(name: str) -> None:
    factor = catalogue.entry("learning_rates", name).factor
    course = [factor(k / 50) for k in range(50)]
    assert course[0] == 1.0
    assert all(0 < b <= a for a, b in pairwise(course))

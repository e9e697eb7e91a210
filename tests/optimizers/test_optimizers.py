"""Every optimiser of the shelf against a plain one of torch, and across an
interruption.
"""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn

from tests.refusals import refused
from trainables import catalogue
from trainables.config.trial import parse
from trainables.dp.flat import FlatGradient, Layout

NAMES = catalogue.names("optimizers")
RATE = 0.1


def start():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def walk(model, optimizer, steps):
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
    return catalogue.entry("optimizers", name).make(
        Layout.of(model), learning_rate=RATE
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_interruption_changes_nothing(name):
    model = start()
    whole = walk(model, make(name, model), range(6))
    model = start()
    first = make(name, model)
    walk(model, first, range(3))
    kept, state = copy.deepcopy(model.state_dict()), first.state_dict()
    walk(model, first, range(3, 5))  # what is kept does not move on
    model.load_state_dict(kept)
    later = make(name, model)
    later.load_state_dict(state)
    assert torch.equal(walk(model, later, range(3, 6)), whole)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_of_another_model_is_refused(name):
    other = nn.Linear(3, 4)
    trained = make(name, other)
    walk(other, trained, range(1))
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
        found.append(walk(model, make(name, model), range(3)))
    torch.testing.assert_close(found[1:], [found[0]] * 2)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_the_published_one(name):
    model, reference = start(), start()
    theirs = torch.optim.Adam(reference.parameters(), lr=RATE)
    if name == "momentum":
        theirs = torch.optim.SGD(reference.parameters(), lr=RATE, momentum=0.7)
    if name == "lbfgs":
        theirs = torch.optim.LBFGS(
            reference.parameters(), lr=RATE, max_iter=1, history_size=10
        )
    ours = make(name, model)
    for step in range(6):
        torch.manual_seed(step)
        numbers = torch.randn(8) * 0.5
        theirs.param_groups[0]["lr"] = RATE / (1 + step)
        for p, part in zip(reference.parameters(), numbers.split([6, 2]), strict=True):
            p.grad = part.view(p.shape).clone()
        theirs.step(lambda: 0.0)
    expected = torch.cat([p.detach().flatten() for p in reference.parameters()])
    torch.testing.assert_close(
        walk(model, ours, range(6)), expected, rtol=1e-5, atol=1e-6
    )


def test_lbfgs_needs_few_steps_where_adam_needs_hundreds():
    """Logistic regression whose inputs differ a hundredfold in scale."""
    torch.manual_seed(0)
    inputs = torch.randn(200, 3) * torch.tensor([0.1, 1.0, 10.0])
    gold = torch.randint(2, (200,))

    def loss_after(name, steps, rate):
        model = start()
        layout = Layout.of(model)
        gradient, optimizer = FlatGradient(layout), make(name, model)
        optimizer.learning_rate = rate
        for _ in range(steps):
            gradient.zero_()
            gradient.attach()
            nn.functional.cross_entropy(model(inputs), gold).backward()
            optimizer.step(gradient, share=1.0)
        return nn.functional.cross_entropy(model(inputs), gold).item()

    least = loss_after("lbfgs", 200, 1.0)
    assert loss_after("lbfgs", 30, 1.0) == pytest.approx(least, abs=1e-4)
    assert loss_after("adam", 30, 0.05) > least + 1e-2


@pytest.mark.parametrize(
    "fields",
    [
        {"engine": "dp_sgd", "privacy": {"sampling": "full", "noise_multiplier": 1}},
        {"engine": "sgd", "privacy": {"sampling": "poisson"}},
    ],
)
def test_lbfgs_is_refused_where_gradients_are_not_exact(fields):
    with refused(
        "expected an engine without noise and privacy.sampling=full with"
        " training.optimizer"
    ):
        parse({**fields, "training": {"optimizer": "lbfgs", "steps": 3}})


@pytest.mark.parametrize("name", catalogue.names("learning_rates"))
def test_courses_begin_whole_and_never_rise(name):
    factor = catalogue.entry("learning_rates", name).factor
    course = [factor(k / 50) for k in range(50)]
    assert course[0] == 1.0
    assert all(0 < b <= a for a, b in pairwise(course))

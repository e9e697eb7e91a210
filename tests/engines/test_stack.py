"""Gradients of several stacked models are those of each model alone."""

from __future__ import annotations

import pytest
import torch

from tests.models._builds import MODELS, SCHEMA, random_batch, trained
from trainables import catalogue
from trainables.config import ModelConfig
from trainables.engines._gradient import GradientSource
from trainables.engines._stack import Clip, Request, Stack
from trainables.layers.stacked import blocks
from trainables.models._nlu import NluModel
from trainables.privacy.flat import FlatGradient, Layout

SIZES = (5, 9, 1)  # records of each member


def members(name: str) -> list[NluModel]:
    """Models of one architecture with different weights, each at a dropout step of its own."""
    config = ModelConfig.model_validate({"dropout": 0.2} | MODELS[name])
    build = catalogue.entry("models", config.name).build
    models = [build(config, schema=SCHEMA, seed=seed) for seed in range(len(SIZES))]
    for number, model in enumerate(models):
        model.begin_step("step", number)
        model.train()
    return models


def requests(models: list[NluModel], *, clipped: bool) -> list[Request]:
    found = []
    for number, (model, size) in enumerate(zip(models, SIZES, strict=True)):
        generator = torch.Generator().manual_seed(number)
        clip = None
        if clipped:
            unit = torch.randint(4, (size,), generator=generator)
            bound = 0.5 * 3**number  # of each member its own C; some units are clipped
            clip = Clip(unit, 4, bound, torch.linspace(0.5, 1.5, len(trained(model))).double())
        found.append(
            Request(
                GradientSource(model),
                random_batch(model, size, seed=number),
                torch.rand(size, generator=generator) + 0.1,
                FlatGradient(Layout.of(model)),
                clip,
            )
        )
    return found


def assert_equal_sums(ours: list[Request], alone: list[Request]) -> None:
    for mine, its in zip(ours, alone, strict=True):
        layout = mine.out.layout
        for group, name in enumerate(layout.names):
            part = layout.segment(group)
            difference = (mine.out.data[part] - its.out.data[part]).norm()
            # A linear bias in front of a soft maximum may have no gradient but rounding.
            assert difference <= 1e-5 * its.out.data[part].norm() + 1e-7, name


@pytest.fixture(params=["slices", "batches"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms of a stacked product: an accelerator's runs here too."""
    if request.param == "batches":
        monkeypatch.setattr(blocks, "in_batches", lambda device: True)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("clipped", [True, False], ids=["clipped", "plain"])
@pytest.mark.parametrize("name", MODELS)
def test_each_member_gets_what_it_gets_alone(name: str, clipped: bool) -> None:
    models = members(name)
    alone, ours = requests(models, clipped=clipped), requests(models, clipped=clipped)
    expected = [request.alone() for request in alone]
    stack = Stack()
    found = stack.answer(ours)
    assert stack.passes == {3: 1}  # one pass of all three, not three of one
    for answer, truth in zip(found, expected, strict=True):
        assert not isinstance(answer, Exception), answer
        for mine, its in zip(answer, truth, strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)
    assert_equal_sums(ours, alone)
    if clipped:
        bounds = [request.clip.max_grad_norm for request in alone if request.clip]
        shares = torch.cat([norms / c for (norms, _), c in zip(expected, bounds, strict=True)])
        assert (shares > 1).any()
        assert (shares < 1).any()

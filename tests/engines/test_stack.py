"""Gradients of several stacked models are those of each model alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tests.models._builds import MODELS, SCHEMA, build_model, random_batch, trained
from trainables import catalogue
from trainables.config import ModelConfig
from trainables.engines._gradient import GradientSource
from trainables.engines._stack import Clip, Request, Stack
from trainables.errors import InvalidInput
from trainables.layers.stacked import blocks, lstm
from trainables.layers.stacked.twin import Twin
from trainables.models._nlu import NluModel
from trainables.privacy.flat import FlatGradient, Layout

SIZES = (5, 9, 1)  # records of each member


def members(name: str) -> list[NluModel]:
    """Models of one architecture with different weights, each at a dropout step of its own."""
    config = ModelConfig.model_validate({"dropout": 0.2} | MODELS[name])
    build = catalogue.entry("models", config.name).build
    models = [build(config, schema=SCHEMA, seed=seed) for seed in range(len(SIZES))]
    for number, model in enumerate(models):
        generator = torch.Generator().manual_seed(number)
        with torch.no_grad():  # also what starts as 0 or 1 is each member's own
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
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


@pytest.fixture(params=["small on a CPU", "large on a CPU", "as on an accelerator"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every form of a stacked product: an accelerator's runs here too."""
    if request.param == "as on an accelerator":
        monkeypatch.setattr(blocks, "in_batches", lambda device: True)
        monkeypatch.setattr(lstm, "in_batches", lambda device: True)
    if request.param == "large on a CPU":
        monkeypatch.setattr(lstm, "_IN_CACHE", 0)


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


def test_a_model_whose_crf_needs_log_space_is_answered_alone() -> None:
    models = members("clc")
    with torch.no_grad():
        models[1].crf.transitions[0, 0] = 100.0
    alone, ours = requests(models, clipped=True), requests(models, clipped=True)
    for request in alone:
        request.alone()
    stack = Stack()
    stack.answer(ours)
    assert stack.passes == {1: 1, 2: 1}
    assert_equal_sums(ours, alone)


def test_members_of_other_group_scales_or_without_a_clip_are_answered_apart() -> None:
    models = members("bert")
    alone, ours = (requests(models, clipped=True) for _ in range(2))
    for found in (alone, ours):
        clip = found[2].clip
        assert clip is not None
        found[2] = replace(found[2], clip=replace(clip, group_scale=clip.group_scale.flip(0)))
        found[1] = replace(found[1], clip=None)
    expected = [request.alone() for request in alone]
    stack = Stack()
    found = stack.answer(ours)
    assert stack.passes == {1: 3}
    assert [len(answer) for answer in found] == [len(answer) for answer in expected]
    assert_equal_sums(ours, alone)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("clipped", [True, False], ids=["clipped", "plain"])
@pytest.mark.parametrize("name", ["clc", "bert"])
def test_a_member_that_is_not_finite_spoils_nobody_else(name: str, clipped: bool) -> None:
    models = members(name)
    with torch.no_grad():
        next(p for n, p in models[0].named_parameters() if n.startswith("layers.0")).fill_(math.nan)
    alone, ours = requests(models, clipped=clipped), requests(models, clipped=clipped)
    for request in alone:
        request.alone()
    stack = Stack()
    stack.answer(ours)
    assert stack.passes == {3: 1}
    assert_equal_sums(ours[1:], alone[1:])
    if clipped:  # a unit that is not finite adds nothing
        assert not ours[0].out.data.any()


def test_a_pass_that_breaks_is_told_to_those_that_were_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    models = members("clc")
    with torch.no_grad():
        models[1].crf.transitions[0, 0] = 100.0
    monkeypatch.setattr(Twin, "losses", broken)
    first, second, third = Stack().answer(requests(models, clipped=True))
    assert isinstance(first, RuntimeError)
    assert isinstance(third, RuntimeError)
    assert not isinstance(second, Exception)


def test_models_of_different_shapes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one architecture"):
        Twin([build_model("clc"), build_model("clc", word_dim=7)])

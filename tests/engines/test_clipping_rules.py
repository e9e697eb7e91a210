"""Every rule of the shelf `clipping`: one record adds norm at most C to the sum."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from engine_checks import (
    SIZE,
    WAYS,
    WIDTHS,
    change,
    engine_on,
    gradients,
    mechanism,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from test_engine_sensitivity import RECORDS, SLACK, table_of

from trainables import catalogue
from trainables.config import parse
from trainables.engines import audit_step
from trainables.errors import InvalidInput
from trainables.layers.embedding import Embedding
from trainables.layers.linear import Linear, LinearEntry
from trainables.privacy.clip_rule import ClipRule

NAMES = catalogue.names("clipping")
C = 1.5  # that of `table_of`


@pytest.mark.parametrize("name", NAMES)
@given(
    norms=st.lists(st.sampled_from([0.0, 1e-30, 1e-3, 0.49, 1.0, 31.7, 1e15, 3e38]), min_size=1),
    bound=st.sampled_from([1e-3, 0.5, 30.0]),
)
def test_no_norm_is_left_above_the_bound(name: str, norms: list[float], bound: float) -> None:
    given_ = torch.tensor(norms)
    factors = ClipRule(catalogue.entry("clipping", name).factor).factors(given_, bound)
    assert bool((factors >= 0).all())
    assert bool((given_.double() * factors.double() <= bound * (1 + 1e-6)).all())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    records=RECORDS,
    engine=st.sampled_from(["dp_sgd", "edp_sgd"]),
    sampling=st.sampled_from(["poisson", "shuffle"]),
    group_scale=st.sampled_from(["none", "public"]),
    physical=st.sampled_from([None, 1, 2]),
    way=st.sampled_from(list(WAYS)),
)
def test_one_record_moves_the_sum_by_the_stated_sensitivity_at_most(
    name: str,
    records: list[tuple[float, int]],
    engine: str,
    sampling: str,
    group_scale: str,
    physical: int | None,
    way: str,
) -> None:
    """Records 0..4 are in the batch; record 5 is added, or 5 is replaced by 6."""
    mech = mechanism(
        engine, workers=1, group_scale=group_scale, max_grad_norm=C, clipping=name,
        sampling=sampling,
    )  # fmt: skip
    common = [[i] for i in range(5)] if engine == "dp_sgd" else [list(range(5))]
    added = [[*common, [extra]] for extra in (5, 6)]
    if engine == "edp_sgd":
        added = [[[*common[0], extra]] for extra in (5, 6)]
    left = added[1] if mech.neighboring_relation == "replace_one" else common
    moved = change(
        mech, table_of(records), left, added[0], physical_batch_size=physical,
        model=lambda: WAYS[way](WIDTHS),
    )  # fmt: skip
    assert moved <= mech.sensitivity * SLACK


@pytest.mark.parametrize("name", NAMES)
def test_the_stated_sensitivity_is_reached(name: str) -> None:
    """By a record whose gradient is long in every layer, so no smaller one could be stated."""
    table = torch.zeros(2, SIZE)
    table[1, [0, WIDTHS[0], SIZE - 1]] = 1e4
    mech = mechanism("dp_sgd", max_grad_norm=C, clipping=name)
    assert change(mech, table, [[0]], [[0], [1]]) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_step_keeps_its_claim(name: str) -> None:
    audit = audit_step(mechanism("dp_sgd", clipping=name), calls=240)
    assert audit.passed
    assert audit.interval[0] <= audit.claimed * 1.001


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("way", WAYS)
def test_a_record_that_is_not_finite_in_one_layer_adds_nothing(
    name: str, bad: float, way: str
) -> None:
    """Nor of its other layers."""
    table = gradients(3)
    table[1, 0] = bad
    mech = replace(mechanism("dp_sgd", clipping=name), noise_multiplier=0.0)
    released = []
    for units in ([[0], [1], [2]], [[0], [2]]):
        engine = engine_on(mech, table, units, model=WAYS[way](WIDTHS))
        stats = engine.step(0, 0)
        assert int(stats.nonfinite) == len(units) - 2
        released.append(engine.released.clone())
    assert bool(torch.isfinite(released[0]).all())
    torch.testing.assert_close(released[0], released[1], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("physical", [None, 1])
def test_a_micro_batch_that_is_not_finite_in_one_layer_adds_nothing(
    name: str, bad: float, physical: int | None
) -> None:
    """Nor of its other layers or records, also where its records are read one at a time."""
    table = gradients(4)
    table[1, 0] = bad
    mech = replace(
        mechanism("edp_sgd", workers=2, clipping=name),
        noise_multiplier=0.0,
        group_scale="none",
    )
    released = []
    for units in ([[0, 1, 2], [3]], [[], [3]]):
        engine = engine_on(mech, table, units, physical_batch_size=physical)
        stats = engine.step(0, 0)
        assert int(stats.nonfinite) == bool(units[0])
        released.append(engine.released.clone())
    assert bool(released[1].any())
    torch.testing.assert_close(released[0], released[1], rtol=1e-5, atol=1e-8)
    alone = engine_on(mech, table, [[0, 1, 2]], physical_batch_size=physical)
    alone.step(0, 0)
    assert not bool(alone.released.any())


@pytest.mark.parametrize("name", NAMES)
def test_the_norm_of_every_layer_is_computed_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no rule costs more than another."""
    asked: list[Any] = []
    right = LinearEntry.squared_norms

    def counted(self: LinearEntry, *how: Any) -> torch.Tensor:
        asked.append(self.weight)
        return right(self, *how)

    monkeypatch.setattr(LinearEntry, "squared_norms", counted)
    engine = engine_on(mechanism("dp_sgd", clipping=name), gradients(4), [[0], [1], [2]])
    engine.step(0, 0)
    assert len(asked) == len(set(asked)) == len(WIDTHS)


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.map, self.out = Embedding(4, 3), Linear(3, 4), Linear(4, 2)
        self.map.weight = self.table.weight
        self.idle = Linear(2, 2).requires_grad_(False)


def test_layers_that_share_a_parameter_are_one() -> None:
    model = Tied()
    rule = ClipRule.of("per_layer", model)
    assert rule.num_groups == 2
    assert rule.group([model.table.weight]) == rule.group([model.map.weight, model.map.bias])
    assert rule.group([model.out.bias]) == rule.group([model.out.weight])
    assert rule.bound(2.0) == pytest.approx(2.0 / math.sqrt(2))
    with pytest.raises(InvalidInput, match="share no parameter with 1 other"):
        rule.group([model.out.bias, model.map.bias])


def test_a_rule_is_a_field_of_engines_that_clip() -> None:
    usual = parse({"engine": "dp_sgd"})
    assert usual.id == parse({"engine": "dp_sgd", "privacy": {"clipping": "flat"}}).id
    assert usual.id != parse({"engine": "dp_sgd", "privacy": {"clipping": "normalized"}}).id
    with pytest.raises(InvalidInput, match=r"expected clipping to be one of .*, got 'none'"):
        parse({"engine": "dp_sgd", "privacy": {"clipping": "none"}})
    with pytest.raises(InvalidInput, match=r"unknown field privacy\.clipping for engine sgd"):
        parse({"engine": "sgd", "privacy": {"clipping": "flat"}})
    with pytest.raises(InvalidInput, match=r"expected clipping to be one of .*, got 'none'"):
        replace(mechanism("dp_sgd"), clipping="none")

"""Clipping: one record adds norm at most C to the sum."""

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

from trainables.engines import audit_step
from trainables.layers.linear import LinearEntry
from trainables.privacy.clipping import clip_factor

C = 1.5  # that of `table_of`


@given(
    norms=st.lists(st.sampled_from([0.0, 1e-30, 1e-3, 0.49, 1.0, 31.7, 1e15, 3e38]), min_size=1),
    bound=st.sampled_from([1e-3, 0.5, 30.0]),
)
def test_no_norm_is_left_above_the_bound(norms: list[float], bound: float) -> None:
    given_ = torch.tensor(norms)
    factors = clip_factor(given_, bound)
    assert bool((factors >= 0).all())
    assert bool((given_.double() * factors.double() <= bound * (1 + 1e-6)).all())


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
    records: list[tuple[float, int]],
    engine: str,
    sampling: str,
    group_scale: str,
    physical: int | None,
    way: str,
) -> None:
    """Records 0..4 are in the batch; record 5 is added, or 5 is replaced by 6."""
    mech = mechanism(
        engine, workers=1, group_scale=group_scale, max_grad_norm=C,
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


def test_the_stated_sensitivity_is_reached() -> None:
    """By a record whose gradient is long in every layer, so no smaller one could be stated."""
    table = torch.zeros(2, SIZE)
    table[1, [0, WIDTHS[0], SIZE - 1]] = 1e4
    mech = mechanism("dp_sgd", max_grad_norm=C)
    assert change(mech, table, [[0]], [[0], [1]]) == pytest.approx(1.0, rel=1e-4)


def test_the_step_keeps_its_claim() -> None:
    audit = audit_step(mechanism("dp_sgd"), calls=240)
    assert audit.passed
    assert audit.interval[0] <= audit.claimed * 1.001


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("way", WAYS)
def test_a_record_that_is_not_finite_in_one_layer_adds_nothing(bad: float, way: str) -> None:
    """Nor of its other layers."""
    table = gradients(3)
    table[1, 0] = bad
    mech = replace(mechanism("dp_sgd"), noise_multiplier=0.0)
    released = []
    for units in ([[0], [1], [2]], [[0], [2]]):
        engine = engine_on(mech, table, units, model=WAYS[way](WIDTHS))
        stats = engine.step(0, 0)
        assert int(stats.nonfinite) == len(units) - 2
        released.append(engine.released.clone())
    assert bool(torch.isfinite(released[0]).all())
    torch.testing.assert_close(released[0], released[1], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("physical", [None, 1])
def test_a_micro_batch_that_is_not_finite_in_one_layer_adds_nothing(
    bad: float, physical: int | None
) -> None:
    """Nor of its other layers or records, also where its records are read one at a time."""
    table = gradients(4)
    table[1, 0] = bad
    mech = replace(
        mechanism("edp_sgd", workers=2),
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


def test_the_norm_of_every_layer_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    right = LinearEntry.squared_norms

    def counted(self: LinearEntry, *how: Any) -> torch.Tensor:
        asked.append(self.weight)
        return right(self, *how)

    monkeypatch.setattr(LinearEntry, "squared_norms", counted)
    engine = engine_on(mechanism("dp_sgd"), gradients(4), [[0], [1], [2]])
    engine.step(0, 0)
    assert len(asked) == len(set(asked)) == len(WIDTHS)

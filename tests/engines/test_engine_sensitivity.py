"""The largest change of the clipped sum between neighbouring batches, searched for by
hypothesis: `Mechanism.sensitivity` in units of C, which float32 may exceed by a part in
10^4.
"""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from engine_checks import SIZE, WAYS, WIDTHS, change, engine_on, gradients, mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.dp.layers.linear import LinearEntry

SLACK = 1 + 1e-4
C = 1.5
NAN, INF = math.nan, math.inf
# How a record's gradient lies: length in units of C, and along which axis (of each
# group, one).
LENGTHS = st.sampled_from(
    [0.0, 1e-20, 0.3, 1.0, 1.001, 3.0, 1e6, -0.3, -1.0, -5.0, -1e6, NAN, INF]
)
AXES = st.sampled_from([0, 1, WIDTHS[0], SIZE - 1])
RECORDS = st.lists(st.tuples(LENGTHS, AXES), min_size=7, max_size=7)
MECHANISMS = st.sampled_from(
    [
        ("dp_sgd", 1, {}),
        ("dp_sgd", 4, {"sampling": "shuffle"}),
        ("edp_sgd", 1, {}),
        ("edp_sgd", 2, {"sampling": "poisson"}),
        ("edp_sgd", 4, {}),
        ("edp_sgd", 4, {"noise_calibration": "central", "microbatch_size": 2}),
        (
            "edp_sgd",
            2,
            {
                "noise_calibration": "central",
                "microbatch_size": 2,
                "sampling": "poisson",
            },
        ),
        ("edp_sgd", 2, {"noise_calibration": "central", "microbatch_size": 1}),
    ]
)


def table_of(records):
    table = torch.zeros(len(records), SIZE)
    for row, (length, axis) in zip(table, records, strict=True):
        row[axis] = length * C
    return table


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    which=MECHANISMS,
    records=RECORDS,
    group_scale=st.sampled_from(["none", "public"]),
    physical=st.sampled_from([None, 1, 2]),
    way=st.sampled_from(list(WAYS)),
    place=st.integers(0, 3),
)
def test_one_record_moves_the_sum_by_the_stated_sensitivity_at_most(
    which, records, group_scale, physical, way, place
):
    """Records 0..4 are in the batch; record 5 is added, or 5 is replaced by 6."""
    engine, workers, privacy = which
    mech = mechanism(
        engine, workers=workers, group_scale=group_scale, max_grad_norm=C, **privacy
    )
    if mech.microbatch_size == 1:
        common = [[i] for i in range(5)]
        without, plus, other = common, [*common, [5]], [*common, [6]]
    else:
        bins = mech.num_microbatches
        common = [[i for i in range(5) if i % bins == j] for j in range(bins)]
        place %= bins
        without = common
        plus, other = (
            [[*unit, extra] if j == place else unit for j, unit in enumerate(common)]
            for extra in (5, 6)
        )
    left = other if mech.neighboring_relation == "replace_one" else without
    moved = change(
        mech, table_of(records), left, plus, physical_batch_size=physical, way=way
    )
    assert moved <= mech.sensitivity * SLACK


@pytest.mark.parametrize("relation", ["add", "replace"])
def test_the_stated_sensitivity_is_reached(relation):
    """So no smaller one could be stated: a record turns a clipped mean around. Norms
    are upper bounds of the rounding as well, about 1e-5 above those of these gradients.
    """
    table = table_of([(100.0, 0), (-300.0, 0), (-100.0, 0)])
    reached = partial(pytest.approx, rel=2e-5)
    if relation == "add":
        mech = mechanism(sampling="poisson", max_grad_norm=C)
        assert change(mech, table, [[0]], [[0, 1]]) == reached(mech.sensitivity)
        mech = mechanism("dp_sgd", max_grad_norm=C)
        assert change(mech, table, [[0]], [[0], [1]]) == reached(mech.sensitivity)
    else:
        mech = mechanism("dp_sgd", sampling="shuffle", max_grad_norm=C)
        assert change(mech, table, [[0]], [[2]]) == reached(mech.sensitivity)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("physical", [None, 1])
def test_a_micro_batch_that_is_not_finite_in_one_layer_adds_nothing(bad, physical):
    """Nor of its other layers or records, also where its records are read one at a
    time.
    """
    table = gradients(4)
    table[1, 0] = bad
    mech = replace(mechanism(workers=2), noise_multiplier=0.0)
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


def test_the_norm_of_every_layer_is_computed_once(monkeypatch):
    asked = []
    right = LinearEntry.squared_norms

    def counted(self, *how):
        asked.append(self.weight)
        return right(self, *how)

    monkeypatch.setattr(LinearEntry, "squared_norms", counted)
    engine_on(mechanism("dp_sgd"), gradients(4), [[0], [1], [2]], compares=False).step(
        0, 0
    )
    assert len(asked) == len(set(asked)) == len(WIDTHS)

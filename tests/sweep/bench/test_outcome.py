"""The rows of a benchmark: medians of ratios within a round, which no slow machine moves."""

from __future__ import annotations

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.bench.outcome import Outcome, Row, Times, ratios, row

_SECONDS = st.floats(1e-4, 1e2)
_STEPS = st.lists(_SECONDS, min_size=1, max_size=12)


def times(*cpu: float) -> Times:
    return Times(cpu=cpu, wall=tuple(2 * each for each in cpu))


@given(cpu=_STEPS, factor=_SECONDS)
def test_an_engine_that_always_takes_a_multiple_has_that_ratio(
    cpu: list[float], factor: float
) -> None:
    """However the machine's speed changes from round to round."""
    found = ratios([factor * each for each in cpu], cpu)
    assert found == pytest.approx((factor, factor, factor))


@given(rounds=st.lists(st.tuples(_SECONDS, _SECONDS), min_size=1, max_size=12), slow=_SECONDS)
def test_a_slow_machine_and_the_order_of_the_rounds_move_no_ratio(
    rounds: list[tuple[float, float]], slow: float
) -> None:
    low, middle, high = ratios(*zip(*rounds, strict=True))
    assert low <= middle <= high
    turned = [(slow * mine, slow * its) for mine, its in reversed(rounds)]
    assert ratios(*zip(*turned, strict=True)) == pytest.approx((low, middle, high))


@given(cpu=_STEPS, records=st.integers(1, 500))
def test_a_row_is_of_the_median_step(cpu: list[float], records: int) -> None:
    found = row("dp_sgd", {"dp_sgd": times(*cpu)}, steps_per_epoch=records, peak_mib=3.5)
    middle = statistics.median(cpu)
    assert found.steps == len(cpu)
    assert found.step_ms == pytest.approx(1e3 * middle)
    assert found.wall_ms == pytest.approx(2e3 * middle)
    assert found.epoch_seconds == pytest.approx(records * middle)
    assert found.step_ms_quartiles is not None
    low, high = found.step_ms_quartiles
    assert 1e3 * min(cpu) <= low * (1 + 1e-9)
    assert low <= found.step_ms * (1 + 1e-9) <= high * (1 + 1e-6)
    assert found.peak_mib == 3.5
    assert (found.x_sgd, found.x_stock, found.x_sgd_quartiles) == (None, None, None)


def test_each_baseline_has_its_own_ratio() -> None:
    measured = {"sgd": times(1.0, 2.0), "stock": times(4.0, 8.0), "dp_sgd": times(2.0, 4.0)}
    found = {name: row(name, measured, steps_per_epoch=1, peak_mib=None) for name in measured}
    assert {name: (each.x_sgd, each.x_stock) for name, each in found.items()} == {
        "sgd": (1.0, 0.25),
        "stock": (4.0, 1.0),
        "dp_sgd": (2.0, 0.5),
    }


def test_an_engine_that_was_stopped_early_is_compared_in_its_own_rounds() -> None:
    """The later rounds of the baseline were ten times slower, and it had none of them."""
    found = row(
        "dp_sgd",
        {"sgd": times(1.0, 1.0, 10.0, 10.0), "dp_sgd": times(3.0, 3.0)},
        steps_per_epoch=1,
        peak_mib=None,
    )
    assert (found.x_sgd, found.x_sgd_quartiles) == (3.0, (3.0, 3.0))


def test_an_outcome_is_json_with_the_reasons_of_what_was_skipped() -> None:
    outcome = Outcome(
        data="atis",
        model="clc",
        batch_size=8,
        workers=2,
        num_records=100,
        steps_per_epoch=13,
        idle_mib=None,
        rows=(Row(engine="naive", skipped="measured with --workers 1 only"),),
    )
    found = json.loads(json.dumps(outcome.plain(), allow_nan=False))
    assert found["rows"][0]["skipped"] == "measured with --workers 1 only"
    assert found["rows"][0]["step_ms"] is None
    assert found["steps_per_epoch"] == 13

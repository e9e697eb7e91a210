"""Tables 1 and 2 of the paper, from made-up trials whose answers are known by hand."""

from __future__ import annotations

import pytest

from dashboards import comparison
from dashboards.results import Estimate
from tests.dashboards import samples


def test_a_row_holds_the_best_trial_of_its_decay_relative_to_the_baseline() -> None:
    rows = {(row.engine, row.decay): row for row in comparison.decays(samples.sweep())}
    assert list(rows) == [
        ("edp_sgd", "none"),
        ("edp_sgd", "linear"),
        ("edp_sgd", "exponential"),
        ("dp_sgd", "none"),
    ]
    of_dp_sgd = [row for row in comparison.decays(samples.sweep()) if row.engine == "dp_sgd"]
    assert [row.trial.epsilon for row in of_dp_sgd] == [8.0, 50.0]
    assert rows["edp_sgd", "none"].trial.id == "b2b2"
    assert rows["edp_sgd", "none"].num_trials == 2
    linear = rows["edp_sgd", "linear"]
    assert linear.ser_change is not None
    assert linear.ser_change.relative == pytest.approx(0.2)
    # 0.02 apart with standard errors of 0.0102 each: inside 1.96 of 0.0144.
    assert linear.ser_change.significant is False
    best = rows["dp_sgd", "none"]
    assert best.ser_change is not None
    assert best.ser_change.significant is True


def test_a_paired_comparison_is_taken_where_the_trial_has_one() -> None:
    paired = {
        "delta_ser_percent": 21.0,
        "delta_ser_percent_low": 3.0,
        "delta_ser_percent_high": 40.0,
        "delta_ser_significant": 1.0,
    }
    base = samples.trial("aaaa", "sgd", 0.10, None)
    mine = samples.trial("cccc", "edp_sgd", 0.12, 2e6, decay="linear", metrics=paired)
    [row] = comparison.decays(samples.sweep(trials=(base, mine)))
    assert row.ser_change == comparison.Change(
        relative=pytest.approx(0.21), significant=True, low=0.03, high=0.4
    )


def test_without_a_baseline_there_is_no_change() -> None:
    found = comparison.decays(samples.sweep(trials=samples.sweep().trials[1:]))
    assert all(row.ser_change is None for row in found)


def test_a_change_without_intervals_is_of_unknown_significance() -> None:
    found = comparison.change(Estimate(value=2.0), Estimate(value=1.0))
    assert found is not None
    assert (found.relative, found.significant) == (1.0, None)
    assert comparison.change(Estimate(value=2.0), Estimate(value=0.0)) is None


def test_times_are_multiples_of_the_baseline_with_their_range() -> None:
    [base, *others] = comparison.times(samples.sweep())
    assert (base.engine, base.factor) == ("sgd", 1.0)
    assert {row.factor for row in others} == {1.5}
    assert [row.decay for row in others] == ["none", "linear", "exponential", "none"]


def test_the_front_steps_down_and_knows_no_infinite_epsilon() -> None:
    corners = comparison.front_steps(samples.sweep().trials)
    assert corners == [(8.0, 0.55), (50.0, 0.41), (6e5, 0.15), (1e6, 0.13), (2e6, 0.12)]

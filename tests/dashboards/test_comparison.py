"""Tables 1 and 2 of the paper, from made-up trials whose answers are known by hand."""

import math
from dataclasses import replace

import pytest

from dashboards import charts, comparison
from dashboards.results import Choice, Estimate
from tests.dashboards import samples

EDP = {"engine": "edp_sgd", "baseline": False}


def test_a_row_holds_the_best_trial_of_its_decay_relative_to_the_baseline():
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
    assert linear.ser_change.relative == pytest.approx(0.2)
    # 0.02 apart with standard errors of 0.0102 each: inside 1.96 of 0.0144.
    assert linear.ser_change.significant is False
    best = rows["dp_sgd", "none"]
    assert best.ser_change.significant is True


def test_a_paired_comparison_is_taken_where_the_trial_has_one():
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


def test_without_a_baseline_there_is_no_change():
    found = comparison.decays(samples.sweep(trials=samples.sweep().trials[1:]))
    assert all(row.ser_change is None for row in found)


def test_a_change_without_intervals_is_of_unknown_significance():
    found = comparison.change(Estimate(value=2.0), Estimate(value=1.0))
    assert (found.relative, found.significant) == (1.0, None)
    assert comparison.change(Estimate(value=2.0), Estimate(value=0.0)) is None


def test_a_change_is_from_the_baseline_on_the_same_data():
    base, mine = samples.trial("a", "sgd", 0.10, None), samples.trial("b", "edp_sgd", 0.30, 9.0)
    trials = (base, replace(base, id="c", data="2"), replace(mine, data="2"))
    own = replace(trials[1], metrics={**base.metrics, "ser": 0.2, "seconds_epoch": 6.0})
    found = samples.sweep(trials=(base, own, trials[2]))
    [row] = comparison.decays(found)
    assert row.ser_change.relative == pytest.approx(0.5)
    assert [each.factor for each in comparison.times(found)] == [1.0, 0.5]
    alone = samples.sweep(trials=(base, trials[2]))
    assert comparison.decays(alone)[0].ser_change is None
    assert charts.frontier(found).level is None


def test_what_read_no_private_record_is_no_baseline_of_others():
    """As in `sweep show`, also where it comes first and has the model of the trial."""
    prior = replace(samples.trial("a", "untrained", 0.90, 0.0, model="heads"), baseline=True)
    base = samples.trial("b", "sgd", 0.10, None, model="clc")
    mine = samples.trial("c", "edp_sgd", 0.30, 9.0, model="heads")
    found = samples.sweep(trials=(prior, base, mine))
    assert found.baseline_of(mine) is found.baseline is base
    alone = samples.sweep(trials=(prior, mine))
    assert alone.baseline_of(mine) is alone.baseline is None


def test_a_decay_is_represented_by_the_trial_that_the_sweep_ranks_first():
    ranks = {"lucky": None, "first": 3, "second": 5, "unlucky": None}
    trials = [samples.trial(n, "edp_sgd", 0.1, 9.0, rank=rank) for n, rank in ranks.items()]
    [row] = comparison.decays(samples.sweep(trials=tuple(trials)))
    assert (row.trial.id, row.num_trials) == ("first", 4)


def test_an_inverted_attack_has_no_change():
    inverted = {"mia_shadow_auc": 0.4, "mia_shadow_auc_low": 0.38, "mia_shadow_auc_high": 0.42}
    base = samples.trial("a", "sgd", 0.10, None, metrics=inverted)
    mine = samples.trial("b", "edp_sgd", 0.12, 9.0)
    for trials in ((base, mine), (samples.trial("c", "sgd", 0.1, None), replace(base, **EDP))):
        [row] = comparison.decays(samples.sweep(trials=trials))
        assert row.auc_change is None


def test_a_private_baseline_has_its_epsilon_and_its_guarantee():
    base = samples.trial("a", "edp_sgd", 0.1, 9.0, epsilon_paper=2.0)
    trials = (replace(base, baseline=True), samples.trial("b", "dp_sgd", 0.3, 8.0))
    found = samples.sweep(trials=trials, choice=Choice(epsilon_max=8.0, trial="b"))
    assert {point.x for point in charts.frontier(found).points} == {8.0, 9.0}


def test_times_are_multiples_of_the_baseline_with_their_range():
    [base, *others] = comparison.times(samples.sweep())
    assert (base.engine, base.factor) == ("sgd", 1.0)
    assert {row.factor for row in others} == {1.5}
    assert [row.decay for row in others] == ["none", "linear", "exponential", "none"]


def test_times_of_two_models_are_two_rows_that_name_them():
    def timed(name, engine, model, seconds):
        made = samples.trial(name, engine, 0.1, None, metrics={"seconds_epoch": seconds})
        return replace(made, model=model, model_name=model)

    trials = (
        timed("a", "sgd", "clc", 10.0),
        timed("b", "edp_sgd", "clc", 20.0),
        timed("c", "sgd", "features", 0.1),
        timed("d", "edp_sgd", "features", 0.3),
    )
    found = samples.sweep(trials=trials)
    rows = [(row.engine, row.which, row.median, row.factor) for row in comparison.times(found)]
    assert rows == [
        ("sgd", "clc", 10.0, 1.0),
        ("sgd", "features", 0.1, 1.0),
        ("edp_sgd", "clc", 20.0, 2.0),
        ("edp_sgd", "features", 0.3, pytest.approx(3.0)),
    ]
    [one, _] = comparison.times(samples.sweep(trials=trials[:2]))
    assert one.which == ""


def test_the_front_is_that_of_the_sweep_and_knows_no_infinite_epsilon():
    """At the epsilon that decides between trials: what rounding leaves of a target is no step."""
    found = [
        samples.trial("open", "sgd", 0.1, math.inf, on_front=True),
        samples.trial("large", "dp_sgd", 0.1, 50.0, on_front=True),
        samples.trial("good", "dp_sgd", 0.2, 7.99999, compared_epsilon=8.0, on_front=True),
        samples.trial("bad", "dp_sgd", 0.48, 7.99975, compared_epsilon=8.0),
    ]
    assert comparison.front_steps(found) == [(8.0, 0.2), (50.0, 0.1)]

import math
from dataclasses import replace

import pytest

from dashboards import charts
from dashboards.results import Change
from tests.dashboards import samples

BASE = samples.trial("a", "sgd", 0.10, None)


def change(mine, base=BASE):
    return samples.sweep(trials=(base, mine)).change(mine)


def test_a_change_is_significant_beyond_the_error_of_the_difference():
    """Both have a standard error of 0.0102: of the difference 0.0144, times 1.96
    0.028.
    """
    near, far = (samples.trial("b", "edp_sgd", ser, 9.0) for ser in (0.12, 0.13))
    assert change(near) == Change(relative=pytest.approx(0.2), significant=False)
    assert change(far).significant is True
    assert samples.sweep(trials=(near,)).change(near) is change(BASE, near) is None


def test_a_paired_comparison_is_taken_where_the_trial_has_one():
    paired = {
        "delta_ser_percent": 21.0,
        "delta_ser_percent_low": 3.0,
        "delta_ser_percent_high": 40.0,
        "delta_ser_significant": 1.0,
    }
    mine = samples.trial("c", "edp_sgd", 0.12, 2e6, metrics=paired)
    expected = Change(
        relative=pytest.approx(0.21), significant=True, low=0.03, high=0.4
    )
    assert change(mine) == expected


def test_a_change_without_intervals_is_of_unknown_significance():
    one, two, none = (
        replace(BASE, id=f"{ser}", metrics={"ser": ser}) for ser in (1.0, 2.0, 0.0)
    )
    mine = replace(two, engine="edp_sgd", baseline=False)
    assert change(mine, one) == Change(relative=1.0, significant=None)
    assert change(mine, none) is None


def test_a_change_is_from_the_baseline_on_the_same_data():
    mine = replace(samples.trial("b", "edp_sgd", 0.30, 9.0), data="2")
    own = replace(BASE, id="c", data="2")
    found = samples.sweep(trials=(BASE, own, mine))
    assert found.baseline_of(mine) is own
    assert samples.sweep(trials=(BASE, mine)).baseline_of(mine) is None
    assert charts.frontier(found).level is None


def test_what_read_no_private_record_is_no_baseline_of_others():
    """As in `sweep show`, also where it comes first and has the model of the trial."""
    prior = replace(
        samples.trial("a", "untrained", 0.90, 0.0, model="heads"), baseline=True
    )
    base = samples.trial("b", "sgd", 0.10, None, model="clc")
    mine = samples.trial("c", "edp_sgd", 0.30, 9.0, model="heads")
    found = samples.sweep(trials=(prior, base, mine))
    assert found.baseline_of(mine) is found.baseline is base
    alone = samples.sweep(trials=(prior, mine))
    assert alone.baseline_of(mine) is alone.baseline is None


def test_a_private_baseline_has_its_epsilon_and_its_guarantee():
    base = samples.trial("a", "edp_sgd", 0.1, 9.0, epsilon_paper=2.0)
    trials = (replace(base, baseline=True), samples.trial("b", "dp_sgd", 0.3, 8.0))
    found = samples.sweep(trials=trials, chosen="b")
    assert {point.x for point in charts.frontier(found).points} == {8.0, 9.0}


def test_the_front_is_that_of_the_sweep_and_knows_no_infinite_epsilon():
    """At the epsilon that decides between trials: what rounding leaves of a target is
    no step.
    """
    found = [
        samples.trial("open", "sgd", 0.1, math.inf, on_front=True),
        samples.trial("large", "dp_sgd", 0.1, 50.0, on_front=True),
        samples.trial(
            "good", "dp_sgd", 0.2, 7.99999, compared_epsilon=8.0, on_front=True
        ),
        samples.trial("bad", "dp_sgd", 0.48, 7.99975, compared_epsilon=8.0),
    ]
    assert charts.front_steps(found) == [(8.0, 0.2), (50.0, 0.1)]

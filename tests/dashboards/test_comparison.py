import math
from dataclasses import replace

from dashboards import charts
from tests.dashboards import samples

BASE = samples.trial("a", "sgd", 0.10, None)


def test_baselines_on_several_data_sets_are_no_reference():
    mine = replace(samples.trial("b", "edp_sgd", 0.30, 9.0), data="2")
    own = replace(BASE, id="c", data="2")
    found = samples.sweep(trials=(BASE, own, mine))
    assert found.baseline is None
    assert charts.frontier(found).level is None


def test_what_read_no_private_record_is_no_baseline_of_others():
    """As in `sweep show`, also where it comes first and has the model of the trial."""
    prior = replace(samples.trial("a", "untrained", 0.90, 0.0), baseline=True)
    base = samples.trial("b", "sgd", 0.10, None)
    mine = samples.trial("c", "edp_sgd", 0.30, 9.0)
    found = samples.sweep(trials=(prior, base, mine))
    assert found.baseline is base
    alone = samples.sweep(trials=(prior, mine))
    assert alone.baseline is None


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

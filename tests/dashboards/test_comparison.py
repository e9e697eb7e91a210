import math

from dashboards import charts
from tests.dashboards import samples


def test_trials_with_several_baselines_have_no_line_of_one():
    base, own = (samples.trial(one, "sgd", 0.10, None) for one in ("a", "c"))
    first = samples.trial("b", "edp_sgd", 0.30, 9.0, compared_with="a")
    other = samples.trial("d", "edp_sgd", 0.30, 9.0, compared_with="c")
    trials = (base, own, first, other)
    open_ = samples.sweep(trials=trials, chosen=None)
    assert open_.baseline is None
    assert charts.frontier(open_).level is None
    chosen = samples.sweep(trials=trials, chosen="d")
    assert chosen.baseline is own
    assert charts.frontier(chosen).level == (10.0, "c without privacy, 10")


def test_what_read_no_private_record_is_no_baseline_of_others():
    """As in `sweep show`, also where it comes first and has the model of the trial."""
    prior = samples.trial("a", "untrained", 0.90, 0.0, baseline=True)
    assert not prior.is_baseline
    mine = samples.trial("c", "edp_sgd", 0.30, 9.0, compared_with=None)
    found = samples.sweep(trials=(prior, mine))
    assert found.baseline is None
    assert found.prior is prior


def test_a_private_baseline_has_its_epsilon_and_its_guarantee():
    base = samples.trial("a", "edp_sgd", 0.1, 9.0, epsilon_paper=2.0, baseline=True)
    trials = (base, samples.trial("b", "dp_sgd", 0.3, 8.0))
    found = samples.sweep(trials=trials, chosen="b")
    assert {point.x for point in charts.frontier(found).points} == {8.0, 9.0}


def test_the_front_is_that_of_the_sweep_and_knows_no_infinite_epsilon():
    """At the epsilon that decides between trials: what rounding leaves of a target is
    no step.
    """
    front = {"pareto_optimal": True}
    found = [
        samples.trial("open", "sgd", 0.1, math.inf, **front),
        samples.trial("large", "dp_sgd", 0.1, 50.0, **front),
        samples.trial("good", "dp_sgd", 0.2, 7.99999, epsilon_compared=8.0, **front),
        samples.trial("bad", "dp_sgd", 0.48, 7.99975, epsilon_compared=8.0),
    ]
    assert charts.front_steps(found, "ser") == [(8.0, 20.0), (50.0, 10.0)]

"""A plan with nothing to run is refused in one line: which limits refuse how many
points.
"""

import random

import pytest

from sweep.planning.plan import require_trials
from sweep.store.plans import Plan, PlannedTrial
from trainables.errors import InvalidInput


def trial(number=0, limit=None, *, baseline=False, epsilon=None):
    """A trial that a limit refuses, if any."""
    return PlannedTrial(
        id=f"t{number}",
        variant="v",
        baseline=baseline,
        values={},
        origin={"engine": "dp_sgd"},
        epsilon_budget=epsilon,
        reason=limit[1] if limit else None,
        refused_by=limit[0] if limit else None,
    )


def plan_of(*trials, **fields):
    return Plan(name="s", trials=trials, **fields)


def refusal(plan):
    with pytest.raises(InvalidInput) as refused:
        require_trials(plan)
    text = str(refused.value)
    assert "\n" not in text
    return text


_NOISE = ("constraint", "too much noise")
_OVER = ("budget", "epsilon 9 exceeds budget.epsilon=1")
_FIELD = ("config", "training.epochs: 0")


def test_one_trial_that_runs_is_enough():
    require_trials(plan_of(trial(0, _NOISE), trial(1), trial(2, _OVER)))


def test_baselines_do_not_count_where_anything_else_was_meant():
    """They serve comparison with trials that do not run."""
    baseline = trial(0, baseline=True)
    assert refusal(plan_of(baseline, trial(1, _NOISE))).startswith("all 1 points")
    require_trials(plan_of(baseline))


def test_a_probe_that_would_run_is_enough_for_a_search():
    require_trials(plan_of(probes=(trial(0, _NOISE), trial(1)), to_choose=5))
    assert "all 2 points" in refusal(
        plan_of(probes=(trial(0, _NOISE), trial(1, _NOISE)), to_choose=5)
    )


def test_limits_are_named_by_how_many_points_they_refuse_in_any_order():
    """The fourth limit is left out: the line stays a line."""
    trials = [trial(n, _NOISE) for n in range(4)]
    trials += [trial(n, ("mechanism", "batch 63")) for n in range(4, 7)]
    trials += [trial(n, _FIELD) for n in range(7, 9)]
    trials += [trial(9, _OVER)]
    expected = (
        "all 10 points other than baselines are refused, 4 by constraint: too much"
        " noise; 3 by mechanism: batch 63; 2 by config: training.epochs: 0"
    )
    for seed in range(5):
        random.Random(seed).shuffle(trials)
        assert refusal(plan_of(*trials)) == expected


def test_each_constraint_is_a_limit_and_a_mechanism_is_one_whatever_its_text():
    """Two batch sizes refused by two texts are refused by one rule."""
    trials = [trial(0, ("mechanism", "batch 63")), trial(1, ("mechanism", "batch 65"))]
    assert "2 by mechanism: batch 63" in refusal(plan_of(*trials))
    trials = [trial(0, _NOISE), trial(1, ("constraint", "too dear"))]
    text = refusal(plan_of(*trials))
    assert "1 by constraint: too much noise; 1 by constraint: too dear" in text


def test_the_smallest_epsilon_is_named_where_a_budget_refuses_and_one_is_known():
    """Of the points that are no baseline, whose epsilon no budget limits."""
    dear, dearer = trial(0, _OVER, epsilon=4.25), trial(1, _OVER, epsilon=9.5)
    free = trial(2, baseline=True, epsilon=0.5)
    assert refusal(plan_of(dearer, dear, free)).endswith(
        "; the smallest epsilon of any trial is 4.25"
    )
    assert "smallest" not in refusal(plan_of(trial(0, _OVER)))
    assert "smallest" not in refusal(plan_of(trial(0, _NOISE, epsilon=4.25)))

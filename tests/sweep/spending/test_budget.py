"""Budgets: exact at the boundary, for every engine, and without effect where they do
not apply.
"""

import math

import pytest
from pydantic import ValidationError

from search_spaces.parts import Budget
from sweep.spending.gate import epsilon_refusal
from tests.accountants._mechanisms import mechanism
from trainables.dp.accounting.accountants import paper_zcdp
from trainables.dp.accounting.choose import account, epsilon_after


def trial_of(engine="edp_sgd"):
    noise = {"noise_multiplier": 2.0, "decay": "exponential", "tau": 0.05}
    return mechanism(engine, epochs=5, **({} if engine == "sgd" else noise))


@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd"])
@pytest.mark.parametrize("epochs", [1, 5])
def test_an_epoch_may_start_exactly_where_its_end_is_within_the_limit(engine, epochs):
    trial = trial_of(engine)
    end = account(trial.first(epochs)).epsilon
    at, below = Budget(epsilon=end), Budget(epsilon=end * (1 - 1e-6))
    for done in range(trial.epochs):
        assert (epsilon_refusal(at, trial, done) is None) == (done < epochs)
        assert (epsilon_refusal(below, trial, done) is None) == (done < epochs - 1)


def test_the_budget_goes_by_the_accountant_it_names():
    trial = trial_of()
    paper = paper_zcdp.epsilon(trial.first(3), delta=trial.delta)
    budget = Budget(epsilon=paper, accountant="paper")
    assert [epsilon_refusal(budget, trial, done) is None for done in range(5)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert paper < epsilon_after(trial, 1), (
        "the sound figure would not have permitted one epoch"
    )
    assert epsilon_refusal(Budget(epsilon=paper), trial, 0) is not None
    assert "(paper)" in str(epsilon_refusal(budget, trial, 3))


def test_what_the_plan_admits_whole_is_never_cut():
    for engine in ("edp_sgd", "dp_sgd"):
        trial = trial_of(engine)
        budget = Budget(epsilon=account(trial, exact=False).epsilon)
        assert all(epsilon_refusal(budget, trial, done) is None for done in range(6))


def test_a_refusal_names_figure_accountant_and_limit():
    reason = epsilon_refusal(Budget(epsilon=0.5), trial_of(), 4)
    assert "(sound) after 5 epochs exceeds budget.epsilon=0.5" in str(reason)
    assert "after 1 epoch exceeds" in str(
        epsilon_refusal(Budget(epsilon=0.5), trial_of(), 0)
    )
    assert epsilon_refusal(Budget(epsilon=None), trial_of(), 4) is None
    assert epsilon_refusal(Budget(epsilon=1e6), trial_of(), 4) is None


def test_a_figure_that_is_not_defined_refuses_and_says_so():
    assert epsilon_refusal(Budget(epsilon=100.0), trial_of("sgd"), 0) is not None
    reason = epsilon_refusal(
        Budget(epsilon=1.0, accountant="paper"), trial_of("dp_sgd"), 0
    )
    assert "edp_sgd" in str(reason)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_that_makes_no_sense_is_refused(value):
    for field in ("epsilon", "total"):
        with pytest.raises(ValidationError, match=field):
            Budget(**{field: value})

"""A new accountant and a new decay are a file and a line each: found, held to
budgets.
"""

import pytest

from search_spaces.parts import Budget
from sweep.spending.gate import epsilon_refusal
from tests.refusals import refused
from trainables import catalogue
from trainables.config.calibrate import resolve
from trainables.config.mechanism import build, with_noise
from trainables.config.trial import parse
from trainables.dp.accounting import choose
from trainables.figure_cache import FigureCache

ACCOUNTANT = '''"""Basic composition: what single steps cost, each at its share of delta."""

from trainables.dp.accounting.gaussian import gaussian_epsilon


def of_release(what, *, delta):
    if what.reasons:
        return float("inf")
    count = sum(step.count for step in what.everything)
    return sum(
        step.count * gaussian_epsilon(1 / step.sigma, delta / count) for step in what.everything
    )
'''
DECAY = '''"""A staircase: half of the noise after every second epoch."""


def factor(epoch, *, tau):
    """tau > 0 switches it on."""
    return 0.5 ** (epoch // 2) if tau else 1.0
'''


@pytest.fixture(autouse=True)
def shelves(drop_in):
    """Each shelf with one new file beside its own."""
    drop_in("accountants", "basic", ACCOUNTANT, "guarantee")
    drop_in("schedules", "staircase", DECAY)


def config(**privacy):
    return parse(
        {
            "engine": "edp_sgd",
            "privacy": {"noise_decay": {"kind": "staircase", "tau": 1.0}, **privacy},
            "training": {"num_workers": 1, "expected_batch_size": 64, "epochs": 6},
        }
    )


def test_they_are_found():
    assert "basic" in catalogue.names("accountants", kind="guarantee")
    assert "staircase" in catalogue.names("schedules")
    built = build(config(noise_multiplier=4.0), num_records=640)
    assert [built.noise_multiplier_at(epoch) for epoch in (0, 1, 2, 5)] == [
        4.0,
        4.0,
        2.0,
        1.0,
    ]


def test_a_target_is_met_by_them(tmp_path):
    wanted = config(noise_multiplier={"target_epsilon": 20.0}, accountant="basic")
    for _ in range(2):  # worked out, and found again
        found, mechanism = FigureCache(tmp_path / "cache").resolve(
            wanted, num_records=640
        )
        summary = choose.account(mechanism, accountant="basic")
        assert 0.99 * 20 <= summary.epsilon <= 20
        assert (summary.accountant, summary.tight) == ("basic", False)
    tighter, _ = resolve(
        with_noise(wanted, 1.0).model_copy(
            update={"privacy": wanted.privacy.model_copy(update={"accountant": None})}
        ),
        num_records=640,
    )
    assert tighter.privacy.noise_multiplier < found.privacy.noise_multiplier


def test_a_budget_is_held_by_them():
    built = build(config(noise_multiplier=4.0), num_records=640)
    costs = [
        choose.account(built.first(epochs), accountant="basic").epsilon
        for epochs in range(1, 7)
    ]
    assert costs == sorted(costs)
    budget = Budget(epsilon=costs[3], accountant="basic")
    permitted = [epsilon_refusal(budget, built, done) is None for done in range(6)]
    assert permitted == [done < 4 for done in range(6)]
    assert "(basic) after 6 epochs exceeds budget.epsilon" in str(
        epsilon_refusal(budget, built, 5)
    )


def test_one_that_claims_too_little_changes_nothing(drop_in):
    low = ACCOUNTANT.replace("    return sum(", "    return 0.001 * sum(")
    drop_in("accountants", "low", low, "guarantee")
    built = build(config(noise_multiplier=4.0), num_records=640)
    assert choose.account(built, accountant="low") == choose.account(built)


def test_one_of_another_kind_holds_no_target(drop_in):
    drop_in("accountants", "guess", ACCOUNTANT, "figure")
    with refused(r"guess: it is no guarantee .*basic, gaussian"):
        resolve(
            config(noise_multiplier={"target_epsilon": 20.0}, accountant="guess"),
            num_records=640,
        )

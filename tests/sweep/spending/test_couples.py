"""Totals of couples of records are for one record replaced, in every way that they are computed:
two trials may couple the records differently, and one couple less is not one couple less twice.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from sweep.spending.budget import TotalBudget
from sweep.spending.composition import Composition
from sweep.spending.entries import Entry
from sweep.spending.filter import admits
from sweep.spending.ledger import FILE, Ledger
from trainables.accountants import RdpFilter, Release, RunningBound, epsilon_sweep, release
from trainables.config import PrivacyConfig, TrainingConfig
from trainables.errors import InvalidInput
from trainables.privacy.from_config import build_from

DELTA = 1e-5
FINGERPRINT = "ab" * 32


def couple() -> Release:
    mechanism = build_from(
        "dp_sgd",
        PrivacyConfig(noise_multiplier=4.0, delta=DELTA),
        training=TrainingConfig(epochs=4),
        num_records=2_560,
    )
    return replace(release(mechanism), unit="couple")


def totals() -> tuple[float, float]:
    """Of two trials of couples, and what it would be if the couples were the same."""
    both = epsilon_sweep([couple(), couple()], delta=DELTA, exact=True)
    assert both.neighboring_relation == "replace_one"
    single = replace(couple(), unit="record")
    return both.epsilon, epsilon_sweep([single, single], delta=DELTA, exact=True).epsilon


def test_a_composition_of_few_releases_costs_as_much_as_that_of_all() -> None:
    few = epsilon_sweep(Composition([couple(), couple()]).releases(), delta=DELTA, exact=True)
    assert few.neighboring_relation == "replace_one"
    assert few.epsilon == totals()[0]


def test_a_running_bound_is_not_below_the_total() -> None:
    bound = RunningBound()
    bound.add(couple())
    assert math.isfinite(bound.epsilon(delta=DELTA))
    bound.add(couple())
    assert bound.epsilon(delta=DELTA) >= totals()[0]


def test_the_total_of_a_sweep_has_no_room_for_a_second_trial_that_is_too_dear() -> None:
    dear, cheap = totals()
    budget = TotalBudget((dear + cheap) / 2)
    assert budget.refusal("first", couple(), delta=DELTA) is None
    budget.charge("first", couple(), delta=DELTA)
    assert "exceeds budget.total" in str(budget.refusal("second", couple(), delta=DELTA))


def test_the_total_of_a_data_set_has_no_room_either(tmp_path: Path) -> None:
    dear, cheap = totals()
    limit = (dear + cheap) / 2
    ledger = Ledger(tmp_path / FILE)

    def entry(trial: str) -> Entry:
        return Entry(
            dataset=FINGERPRINT,
            sweep="synthesis",
            trial=trial,
            attempt=1,
            first_epoch=0,
            epochs=4,
            delta=DELTA,
            release=couple(),
        )

    assert ledger.charge_within(entry("first"), budget_total=limit) is None
    assert "exceeds --budget-total" in str(
        ledger.charge_within(entry("second"), budget_total=limit)
    )
    with pytest.raises(InvalidInput, match="expected the data set's total epsilon to stay within"):
        ledger.require_within(FINGERPRINT, [couple()], budget_total=limit, delta=DELTA)


def test_a_filter_admits_no_more_than_its_total_for_one_record_replaced() -> None:
    kept = RdpFilter.of(totals()[0], delta=DELTA)
    most = max(number for number in range(20) if admits(kept, [couple()] * number))
    assert most >= 1
    assert epsilon_sweep([couple()] * most, delta=DELTA).epsilon <= totals()[0]
    single = replace(couple(), unit="record")
    assert admits(kept, [single] * (most + 1))

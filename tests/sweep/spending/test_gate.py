"""The gate charges before it permits and never exceeds a budget. Without disk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.parts import Budget
from sweep.spending.entries import Entry, PricedTrial, attempt_key
from sweep.spending.gate import SpendGate, TimeSpent
from sweep.store.plans import PlannedTrial
from trainables.accountants import epsilon_sweep, paper_zcdp, release
from trainables.config import PrivacyConfig, TrainingConfig, parse
from trainables.privacy.from_config import build, build_from
from trainables.privacy.mechanism import Mechanism

EPOCHS = 3
NOISES = {"a": 10.0, "b": 20.0, "c": 40.0}


def mechanism(noise: float = 20.0, *, epochs: int = EPOCHS, **privacy: Any) -> Mechanism:
    return build_from(
        "edp_sgd",
        PrivacyConfig(**{"noise_multiplier": noise, "delta": 1e-5, **privacy}),
        training=TrainingConfig(epochs=epochs, num_workers=2),
        num_records=2_560,
    )


def plain_mechanism() -> Mechanism:
    """Of a baseline without noise."""
    return build(parse({"engine": "sgd", "training": {"epochs": EPOCHS}}), num_records=2_560)


def trial(name: str, *, baseline: bool = False, gpus: float = 1.0, **fields: Any) -> PricedTrial:
    what = fields.pop("mechanism", mechanism())
    planned = PlannedTrial(
        id=name,
        name=name,
        variant="edp",
        baseline=baseline,
        values={},
        origin={},
        group=name,
        engine=what.engine,
        seed=0,
        epochs=what.epochs,
        **fields,
    )
    return PricedTrial(trial=planned, mechanism=what, dataset="d", dataset_name="mine", gpus=gpus)


@dataclass
class Charges:
    """Keeps what it was charged; `refuse` is its answer."""

    refuse: str | None = None
    entries: list[Entry] = field(default_factory=list)

    def __call__(self, entry: Entry, *, write: bool = True) -> str | None:
        if write and self.refuse is None:
            self.entries.append(entry)
        return self.refuse

    def spent(self) -> float:
        """The composition of the furthest entries."""
        last = {attempt_key(entry): entry.release for entry in self.entries}
        return epsilon_sweep(last.values(), delta=1e-5).epsilon


def gate(*trials: PricedTrial, charge: Charges | None = None, **fields: Any) -> SpendGate:
    budget = fields.pop("budget", None) or Budget(total=fields.pop("total", None))
    priced = {each.trial.id: each for each in trials}
    return SpendGate(sweep="s", trials=priced, budget=budget, charge=charge or Charges(), **fields)


def test_a_trial_that_reads_no_record_is_charged_nothing() -> None:
    made = build(parse({"engine": "untrained", "model": {"name": "features"}}), num_records=2_560)
    charges = Charges()
    tight = Budget(epsilon=1e-6, accountant="paper", total=1e-6)
    found = gate(trial("prior", mechanism=made), charge=charges, budget=tight)
    assert found.begin("prior", attempt=1, epochs_done=0) is None
    assert found.go_on("prior", epochs_done=1) is None
    assert found.refusal(trial("other", mechanism=made)) is None
    assert charges.entries == []
    read = replace(made, undeclared=("the label set is the records' own",))
    found = gate(trial("prior", mechanism=read), charge=charges, budget=Budget(epsilon=1.0))
    assert found.begin("prior", attempt=1, epochs_done=0) is not None


def test_every_epoch_is_charged_before_the_answer() -> None:
    charges = Charges()
    opened = gate(trial("a"), charge=charges)
    assert opened.begin("a", attempt=1, epochs_done=0) is None
    for done in range(1, EPOCHS + 1):
        assert charges.entries[-1].epochs == done
        assert opened.go_on("a", epochs_done=done) is None
    assert [entry.epochs for entry in charges.entries] == [1, 2, 3], "the last is paid once"


def test_what_the_ledger_refuses_is_not_permitted_and_not_counted() -> None:
    charges = Charges(refuse="no room")
    one = epsilon_sweep([release(mechanism())], delta=1e-5).epsilon
    opened = gate(trial("a"), trial("b"), charge=charges, total=one * 1.001)
    assert opened.begin("a", attempt=1, epochs_done=0) == "no room"
    charges.refuse = None
    assert opened.begin("b", attempt=1, epochs_done=0) is None
    assert all(opened.go_on("b", epochs_done=done) is None for done in (1, 2, 3))


def test_a_ledger_that_breaks_gives_no_permission() -> None:
    class Full(Charges):
        def __call__(self, entry: Entry, *, write: bool = True) -> str | None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        gate(trial("a"), charge=Full()).begin("a", attempt=1, epochs_done=0)


def test_what_a_scheduler_stops_pays_for_nothing_more() -> None:
    charges = Charges()
    opened = gate(trial("a"), charge=charges)
    opened.begin("a", attempt=1, epochs_done=0)
    assert opened.go_on("a", epochs_done=1, stop="stopped by asha") == "stopped by asha"
    assert len(charges.entries) == 1


def test_epochs_of_an_earlier_attempt_are_spent_too() -> None:
    """Three epochs are admitted; a crash that costs one more leaves room for two."""
    three = epsilon_sweep([release(mechanism(epochs=9), last=3)], delta=1e-5).epsilon
    priced, charges = trial("a", mechanism=mechanism(epochs=9)), Charges()
    opened = gate(priced, charge=charges, budget=Budget(epsilon=three * 1.0001))
    assert opened.begin("a", attempt=1, epochs_done=0) is None
    assert opened.go_on("a", epochs_done=1) is None
    again = gate(
        priced, charge=charges, budget=Budget(epsilon=three * 1.0001), spent=charges.entries
    )
    assert again.begin("a", attempt=1, epochs_done=1) is None, "the second epoch once more"
    assert again.attempt_of("a") == 2
    refused = again.go_on("a", epochs_done=2)
    assert "with earlier attempts exceeds budget.epsilon" in str(refused)


def test_a_retry_is_charged_beside_the_attempt_that_failed() -> None:
    charges = Charges()
    opened = gate(trial("a"), charge=charges)
    for attempt in (1, 2):
        assert opened.begin("a", attempt=attempt, epochs_done=0) is None
        assert opened.go_on("a", epochs_done=1) is None
    assert [(e.attempt, e.epochs) for e in charges.entries] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert opened.attempt_of("a") == 2
    resumed = gate(trial("a"), spent=charges.entries)
    assert resumed.begin("a", attempt=1, epochs_done=2) is None
    assert resumed.attempt_of("a") == 3


def test_the_papers_epsilon_stops_an_interrupted_trial_too() -> None:
    """It has no figure of repeated epochs, so it bounds the trial's own: three epochs of nine."""
    what, charges = mechanism(epochs=9), Charges()
    three, four = (paper_zcdp.epsilon(what.first(n), delta=1e-5) for n in (3, 4))
    limit = Budget(epsilon=(three + four) / 2, accountant="paper")
    first = gate(trial("a", mechanism=what), charge=charges, budget=limit)
    assert first.begin("a", attempt=1, epochs_done=0) is None
    assert first.go_on("a", epochs_done=1) is None
    again = gate(trial("a", mechanism=what), charge=charges, budget=limit, spent=charges.entries)
    assert again.begin("a", attempt=1, epochs_done=1) is None
    assert again.go_on("a", epochs_done=2) is None
    assert "(paper) after 4 epochs exceeds" in str(again.go_on("a", epochs_done=3))


def test_epochs_after_an_older_checkpoint_are_spent_twice() -> None:
    """A stopped trial that goes on from an earlier epoch than its last one: the ledger's entries
    stay within its budget of four epochs, together.
    """
    what, charges = mechanism(epochs=9), Charges()
    limit = epsilon_sweep([release(what, last=4)], delta=1e-5).epsilon * 1.0001
    first = gate(trial("a", mechanism=what), charge=charges, budget=Budget(epsilon=limit))
    assert first.begin("a", attempt=1, epochs_done=0) is None
    assert first.go_on("a", epochs_done=1) is None
    again = gate(
        trial("a", mechanism=what),
        charge=charges,
        budget=Budget(epsilon=limit),
        spent=charges.entries,
    )
    assert again.begin("a", attempt=1, epochs_done=2) is None
    assert again.go_on("a", epochs_done=1) is None, "the second epoch once more"
    assert "with earlier attempts exceeds" in str(again.go_on("a", epochs_done=2))
    assert charges.spent() <= limit


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_order_of_events_passes_the_total(data: st.DataObject) -> None:
    """Trials begin, train, crash and begin again as hypothesis likes: what was permitted never
    costs more than the total, by a composition that knows the whole account.
    """
    limit = data.draw(st.floats(0.05, 3.0), label="total")
    trials = [trial(name, mechanism=mechanism(noise)) for name, noise in NOISES.items()]
    charges = Charges()
    opened = gate(*trials, charge=charges, total=limit)
    done = dict.fromkeys(NOISES, 0)
    for _ in range(data.draw(st.integers(1, 15), label="events")):
        name = data.draw(st.sampled_from(sorted(NOISES)), label="trial")
        if data.draw(st.booleans(), label="crash"):
            opened = gate(*trials, charge=charges, total=limit, spent=charges.entries)
            done = dict.fromkeys(NOISES, 0)
        if done[name] == 0:
            go_on = opened.begin(name, attempt=1, epochs_done=0) is None
        else:
            go_on = opened.go_on(name, epochs_done=done[name]) is None
        done[name] = min(done[name] + 1, EPOCHS) if go_on else 0
    assert charges.spent() <= limit


@pytest.mark.parametrize("is_over", [False, True])
def test_what_may_begin_is_asked_at_the_smallest_delta_of_all(is_over: bool) -> None:
    """As each of its epochs will be: else it would be stopped halfway."""
    strict, lax = (mechanism(delta=delta) for delta in (1e-9, 1e-3))
    both = [release(strict), release(lax)]
    total = (epsilon_sweep(both, delta=1e-9).epsilon + epsilon_sweep(both, delta=1e-3).epsilon) / 2
    opened = gate(trial("a", mechanism=strict), total=total)
    assert opened.begin("a", attempt=1, epochs_done=0) is None
    assert all(opened.go_on("a", epochs_done=done) is None for done in range(1, EPOCHS))
    if is_over:
        opened.ended.add("a")
    assert "exceeds budget.total" in str(opened.refusal(trial("b", mechanism=lax)))


def test_a_baseline_is_charged_and_held_against_nothing() -> None:
    charges = Charges()
    plain = plain_mechanism()
    opened = gate(trial("sgd", baseline=True, mechanism=plain), charge=charges, total=1e-6)
    assert opened.begin("sgd", attempt=1, epochs_done=0) is None
    assert charges.entries[0].baseline
    assert opened.refusal(trial("other")) is not None, "any other trial is too dear"
    assert opened.refusal(trial("other", baseline=True, mechanism=plain)) is None


def test_a_baseline_of_a_private_engine_pays_like_any_trial() -> None:
    """Its budget of one trial, the sweep's total of two, and the ledger of all sweeps."""
    charges, one = Charges(), epsilon_sweep([release(mechanism())], delta=1e-5).epsilon
    dear = trial("dear", baseline=True, mechanism=mechanism(1.0))
    opened = gate(dear, charge=charges, budget=Budget(epsilon=one))
    assert "exceeds budget.epsilon" in str(opened.begin("dear", attempt=1, epochs_done=0))
    both = [trial(name, baseline=True) for name in "ab"]
    opened = gate(*both, charge=charges, total=one * 1.001)
    assert opened.begin("a", attempt=1, epochs_done=0) is None
    assert all(opened.go_on("a", epochs_done=done) is None for done in (1, 2, 3))
    assert "exceeds budget.total" in str(opened.begin("b", attempt=1, epochs_done=0))
    assert not any(entry.baseline for entry in charges.entries)
    assert opened.refusal(trial("c", baseline=True)) is not None


def test_time_and_gpu_hours_are_counted_over_resumes() -> None:
    """GPU hours are those that trials hold: one without a GPU counts none, earlier runs of a trial
    and what it measures after its epochs count once, and a clock that went back takes nothing away.
    """
    now = [50.0]
    time = TimeSpent(before=99.0, of_trials={"a": 1800.0, "cpu": 1e6}, clock=lambda: now[0])
    trials = [trial("a", gpus=2.0), trial("cpu", gpus=0.0)]
    limits = Budget(seconds=100.0, accelerator_hours=2.0)
    opened = gate(*trials, budget=limits, time=time)
    assert (opened.accelerator_hours, time.seconds) == (1.0, 99.0)
    assert opened.time_is_up() is None
    time.add("a", 900.0)
    time.add_rest("a", 10.0)
    assert opened.accelerator_hours == 1.5
    for _ in range(2):
        time.add_rest("a", 3600.0)
        assert opened.accelerator_hours == 2.0
    assert opened.time_is_up() == "budget.accelerator_hours=2 reached"
    opened.trials["late"] = trial("late", gpus=0.5)
    time.add_rest("late", 7200.0)
    assert opened.accelerator_hours == 3.0
    now[0] = 50.9
    assert gate(budget=Budget(seconds=100.0), time=time).time_is_up() is None
    now[0] = 51.0
    assert gate(budget=Budget(seconds=100.0), time=time).time_is_up() == (
        "budget.seconds=100 reached"
    )
    assert gate(time=time).time_is_up() is None
    assert TimeSpent(clock=lambda: now[0]).seconds == gate().accelerator_hours == 0.0


def test_a_trial_that_was_chosen_later_is_charged_like_the_others() -> None:
    charges = Charges()
    opened = gate(charge=charges)
    opened.trials["late"] = trial("late")
    assert opened.begin("late", attempt=1, epochs_done=0) is None
    assert [entry.trial for entry in charges.entries] == ["late"]


def test_a_trial_that_no_plan_admitted_stops_where_its_epsilon_would_be_passed() -> None:
    """Its budget is asked at each epoch; what the plan admitted whole is not asked again."""
    what = mechanism()
    after = [epsilon_sweep([release(what.first(n))], delta=1e-5).epsilon for n in (1, 2, 3)]
    limit = Budget(epsilon=(after[1] + after[2]) / 2)
    for planned in (None, after[2]):  # without a budget, and under a larger one
        opened = gate(trial("a", mechanism=what, epsilon_budget=planned), budget=limit)
        assert opened.begin("a", attempt=1, epochs_done=0) is None
        assert opened.go_on("a", epochs_done=1) is None
        assert "budget.epsilon" in str(opened.go_on("a", epochs_done=2))
    admitted = gate(trial("a", mechanism=what, epsilon_budget=limit.epsilon), budget=limit)
    assert admitted.begin("a", attempt=1, epochs_done=0) is None
    assert all(admitted.go_on("a", epochs_done=done) is None for done in (1, 2, 3))


def test_an_attempt_that_replays_nothing_costs_what_the_trial_was_planned_for() -> None:
    """The plan has admitted all its epochs: each of them is trained once."""
    limit = Budget(epsilon=epsilon_sweep([release(mechanism().first(2))], delta=1e-5).epsilon)
    priced, charges = trial("a", epsilon_budget=limit.epsilon), Charges()
    assert gate(priced, charge=charges, budget=limit).begin("a", attempt=1, epochs_done=0) is None
    again = gate(priced, charge=charges, budget=limit, spent=charges.entries)
    assert again.begin("a", attempt=1, epochs_done=1) is None
    assert all(again.go_on("a", epochs_done=done) is None for done in (2, 3))
    replayed = gate(priced, charge=charges, budget=limit, spent=charges.entries)
    assert replayed.begin("a", attempt=1, epochs_done=1) is not None

"""The gate charges before it permits and never exceeds a budget. Without disk."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.parts import Budget
from sweep.spending.budget import TimeSpent, TotalBudget
from sweep.spending.composition import Composition
from sweep.spending.entries import Entry, PricedTrial, entry_for, furthest
from sweep.spending.gate import LedgerAccount, SpendGate
from sweep.spending.ledger import FILE, Ledger
from sweep.store.plans import PlannedTrial
from trainables.accountants import RdpFilter, Release, _renyi, epsilon_sweep, paper_zcdp, release
from trainables.accountants._release import best_of
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


def trial(name: str, *, baseline: bool = False, **fields: Any) -> PricedTrial:
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
    return PricedTrial(trial=planned, mechanism=what, dataset="d", dataset_name="mine", gpus=1.0)


def test_the_ledgers_account_holds_the_total_of_all_sweeps(tmp_path: Path) -> None:
    """Baselines are written and held against nothing; without a total nothing is refused."""
    book = Ledger(tmp_path / FILE)
    what = entry_for(mechanism(), dataset="d", sweep="s", trial="t", epochs=EPOCHS)
    one = epsilon_sweep([what.release], delta=1e-5).epsilon
    held, free = LedgerAccount(book, one * 1.001), LedgerAccount(book)
    sgd = replace(what, baseline=True, trial="sgd", release=release(plain_mechanism()))
    assert held.refusal(what) is None
    assert not book.entries(), "asking writes nothing"
    assert held.charge(sgd) is None
    assert held.charge(what) is None
    more = replace(what, trial="more")
    assert "total epsilon to stay within" in str(held.refusal(more))
    assert "exceeds --budget-total" in str(held.charge(more))
    assert held.refusal(replace(sgd, trial="more")) is None
    assert "total epsilon to stay within" in str(held.refusal(replace(more, baseline=True)))
    assert "exceeds --budget-total" in str(held.charge(replace(more, baseline=True)))
    assert free.refusal(more) is None
    assert [entry.trial for entry in book.entries()] == ["sgd", "t"]
    assert free.charge(more) is None
    assert len(book.entries()) == 3


@dataclass
class Account:
    """Keeps what it was charged; `refuse` is its answer."""

    refuse: str | None = None
    entries: list[Entry] = field(default_factory=list)

    def charge(self, entry: Entry) -> str | None:
        if self.refuse is None:
            self.entries.append(entry)
        return self.refuse

    def refusal(self, entry: Entry) -> str | None:
        return self.refuse


def gate(*trials: PricedTrial, account: Account | None = None, **fields: Any) -> SpendGate:
    budget = fields.pop("budget", None) or Budget(total=fields.pop("total", None))
    return SpendGate("s", trials, budget=budget, account=account or Account(), **fields)


def test_a_trial_that_reads_no_record_is_charged_nothing() -> None:
    made = build(parse({"engine": "untrained", "model": {"name": "features"}}), num_records=2_560)
    account = Account()
    tight = Budget(epsilon=1e-6, accountant="paper", total=1e-6)
    found = gate(trial("prior", mechanism=made), account=account, budget=tight)
    assert found.begin("prior", attempt=1, epochs_done=0) is None
    assert found.go_on("prior", epochs_done=1) is None
    assert found.refusal(trial("other", mechanism=made)) is None
    assert account.entries == []
    read = replace(made, undeclared=("the label set is the records' own",))
    found = gate(trial("prior", mechanism=read), account=account, budget=Budget(epsilon=1.0))
    assert found.begin("prior", attempt=1, epochs_done=0) is not None


def test_every_epoch_is_charged_before_the_answer() -> None:
    account = Account()
    opened = gate(trial("a"), account=account)
    assert opened.begin("a", attempt=1, epochs_done=0) is None
    for done in range(1, EPOCHS + 1):
        assert account.entries[-1].epochs == done
        assert opened.go_on("a", epochs_done=done) is None
    assert [entry.epochs for entry in account.entries] == [1, 2, 3], "the last is paid once"


def test_what_the_account_refuses_is_not_permitted_and_not_counted() -> None:
    account = Account(refuse="no room")
    one = epsilon_sweep([release(mechanism())], delta=1e-5).epsilon
    opened = gate(trial("a"), trial("b"), account=account, total=one * 1.001)
    assert opened.begin("a", attempt=1, epochs_done=0) == "no room"
    account.refuse = None
    assert opened.begin("b", attempt=1, epochs_done=0) is None
    assert all(opened.go_on("b", epochs_done=done) is None for done in (1, 2, 3))


def test_an_account_that_breaks_gives_no_permission() -> None:
    class Full(Account):
        def charge(self, entry: Entry) -> str | None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        gate(trial("a"), account=Full()).begin("a", attempt=1, epochs_done=0)


def test_what_a_scheduler_stops_pays_for_nothing_more() -> None:
    account = Account()
    opened = gate(trial("a"), account=account)
    opened.begin("a", attempt=1, epochs_done=0)
    assert opened.go_on("a", epochs_done=1, stop="stopped by asha") == "stopped by asha"
    assert len(account.entries) == 1


def test_epochs_of_an_earlier_attempt_are_spent_too() -> None:
    """Three epochs are admitted; a crash that costs one more leaves room for two."""
    three = epsilon_sweep([release(mechanism(epochs=9), last=3)], delta=1e-5).epsilon
    priced, account = trial("a", mechanism=mechanism(epochs=9)), Account()
    opened = gate(priced, account=account, budget=Budget(epsilon=three * 1.0001))
    assert opened.begin("a", attempt=1, epochs_done=0) is None
    assert opened.go_on("a", epochs_done=1) is None
    again = gate(
        priced, account=account, budget=Budget(epsilon=three * 1.0001), spent=account.entries
    )
    assert again.begin("a", attempt=1, epochs_done=1) is None, "the second epoch once more"
    assert again.attempt_of("a") == 2
    refused = again.go_on("a", epochs_done=2)
    assert "with earlier attempts exceeds budget.epsilon" in str(refused)


def test_a_retry_is_charged_beside_the_attempt_that_failed() -> None:
    account = Account()
    opened = gate(trial("a"), account=account)
    for attempt in (1, 2):
        assert opened.begin("a", attempt=attempt, epochs_done=0) is None
        assert opened.go_on("a", epochs_done=1) is None
    assert [(e.attempt, e.epochs) for e in account.entries] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert opened.attempt_of("a") == 2
    resumed = gate(trial("a"), spent=account.entries)
    assert resumed.begin("a", attempt=1, epochs_done=2) is None
    assert resumed.attempt_of("a") == 3


def test_the_papers_epsilon_stops_an_interrupted_trial_too() -> None:
    """It has no figure of repeated epochs, so it bounds the trial's own: three epochs of nine."""
    what, account = mechanism(epochs=9), Account()
    three, four = (paper_zcdp.epsilon(what.first(n), delta=1e-5) for n in (3, 4))
    limit = Budget(epsilon=(three + four) / 2, accountant="paper")
    first = gate(trial("a", mechanism=what), account=account, budget=limit)
    assert first.begin("a", attempt=1, epochs_done=0) is None
    assert first.go_on("a", epochs_done=1) is None
    again = gate(trial("a", mechanism=what), account=account, budget=limit, spent=account.entries)
    assert again.begin("a", attempt=1, epochs_done=1) is None
    assert again.go_on("a", epochs_done=2) is None
    assert "(paper) after 4 epochs exceeds" in str(again.go_on("a", epochs_done=3))


def test_epochs_after_an_older_checkpoint_are_spent_twice() -> None:
    """A stopped trial that goes on from an earlier epoch than its last one: the ledger's entries
    stay within its budget of four epochs, together.
    """
    what, account = mechanism(epochs=9), Account()
    limit = epsilon_sweep([release(what, last=4)], delta=1e-5).epsilon * 1.0001
    first = gate(trial("a", mechanism=what), account=account, budget=Budget(epsilon=limit))
    assert first.begin("a", attempt=1, epochs_done=0) is None
    assert first.go_on("a", epochs_done=1) is None
    again = gate(
        trial("a", mechanism=what),
        account=account,
        budget=Budget(epsilon=limit),
        spent=account.entries,
    )
    assert again.begin("a", attempt=1, epochs_done=2) is None
    assert again.go_on("a", epochs_done=1) is None, "the second epoch once more"
    assert "with earlier attempts exceeds" in str(again.go_on("a", epochs_done=2))
    spent = [entry.release for entry in furthest(account.entries)]
    assert epsilon_sweep(spent, delta=1e-5).epsilon <= limit


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_order_of_events_passes_the_total(data: st.DataObject) -> None:
    """Trials begin, train, crash and begin again as hypothesis likes: what was permitted never
    costs more than the total, by a composition that knows the whole account.
    """
    limit = data.draw(st.floats(0.05, 3.0), label="total")
    trials = [trial(name, mechanism=mechanism(noise)) for name, noise in NOISES.items()]
    account = Account()
    opened = gate(*trials, account=account, total=limit)
    done = dict.fromkeys(NOISES, 0)
    for _ in range(data.draw(st.integers(1, 15), label="events")):
        name = data.draw(st.sampled_from(sorted(NOISES)), label="trial")
        if data.draw(st.booleans(), label="crash"):
            opened = gate(*trials, account=account, total=limit, spent=account.entries)
            done = dict.fromkeys(NOISES, 0)
        if done[name] == 0:
            go_on = opened.begin(name, attempt=1, epochs_done=0) is None
        else:
            go_on = opened.go_on(name, epochs_done=done[name]) is None
        done[name] = min(done[name] + 1, EPOCHS) if go_on else 0
    kept: dict[tuple[str, int, int], Entry] = {}
    for entry in account.entries:
        kept[entry.trial, entry.attempt, entry.first_epoch] = entry
    assert epsilon_sweep([e.release for e in kept.values()], delta=1e-5).epsilon <= limit


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
        opened.end("a")
    assert "exceeds budget.total" in str(opened.refusal(trial("b", mechanism=lax)))


def test_a_baseline_is_charged_and_held_against_nothing() -> None:
    account = Account()
    plain = plain_mechanism()
    opened = gate(trial("sgd", baseline=True, mechanism=plain), account=account, total=1e-6)
    assert opened.begin("sgd", attempt=1, epochs_done=0) is None
    assert account.entries[0].baseline
    assert opened.refusal(trial("other")) is not None, "any other trial is too dear"
    assert opened.refusal(trial("other", baseline=True, mechanism=plain)) is None


def test_a_baseline_of_a_private_engine_pays_like_any_trial() -> None:
    """Its budget of one trial, the sweep's total of two, and the account of all sweeps."""
    account, one = Account(), epsilon_sweep([release(mechanism())], delta=1e-5).epsilon
    dear = trial("dear", baseline=True, mechanism=mechanism(1.0))
    opened = gate(dear, account=account, budget=Budget(epsilon=one))
    assert "exceeds budget.epsilon" in str(opened.begin("dear", attempt=1, epochs_done=0))
    both = [trial(name, baseline=True) for name in "ab"]
    opened = gate(*both, account=account, total=one * 1.001)
    assert opened.begin("a", attempt=1, epochs_done=0) is None
    assert all(opened.go_on("a", epochs_done=done) is None for done in (1, 2, 3))
    assert "exceeds budget.total" in str(opened.begin("b", attempt=1, epochs_done=0))
    assert not any(entry.baseline for entry in account.entries)
    assert opened.refusal(trial("c", baseline=True)) is not None


def test_time_and_gpu_hours_are_counted_over_resumes() -> None:
    now = [0.0]
    time = TimeSpent(before=99.0, of_trials={"a": 1800.0}, gpus={"a": 2.0}, clock=lambda: now[0])
    opened = SpendGate(
        "s",
        [trial("a")],
        budget=Budget(seconds=100.0, accelerator_hours=2.0),
        account=Account(),
        time=time,
    )
    assert time.accelerator_hours == pytest.approx(1.0)
    assert opened.time_is_up() is None
    time.add("a", 1200.0)
    time.add_rest("a", 3600.0)
    assert time.accelerator_hours == pytest.approx(2.0)
    assert opened.time_is_up() == "budget.accelerator_hours=2 reached"
    now[0] = 1.0
    assert (
        SpendGate("s", [], budget=Budget(seconds=100.0), account=Account(), time=time).time_is_up()
        == "budget.seconds=100 reached"
    )


def test_a_trial_that_was_chosen_later_is_charged_and_timed_like_the_others() -> None:
    time, account = TimeSpent(), Account()
    opened = gate(account=account, time=time)
    opened.add(trial("late"))
    assert opened.begin("late", attempt=1, epochs_done=0) is None
    assert [entry.trial for entry in account.entries] == ["late"]
    time.add("late", 3600.0)
    assert time.accelerator_hours == pytest.approx(1.0)


RELEASES = st.builds(
    lambda noise, epochs, poisson: release(
        mechanism(noise, **({"sampling": "poisson"} if poisson else {})), last=epochs
    ),
    st.sampled_from((5.0, 20.0, 21.0)),
    st.integers(1, EPOCHS),
    st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(RELEASES, min_size=1, max_size=8), st.data())
def test_a_running_composition_costs_what_all_its_releases_cost(
    releases: list[Release], data: st.DataObject
) -> None:
    running = Composition(releases)
    out = data.draw(st.sampled_from(releases))
    left = [*releases]
    left.remove(out)
    together = epsilon_sweep(left, delta=1e-5).epsilon
    key = releases.index(out)
    assert epsilon_sweep(running.releases(key), delta=1e-5).epsilon == together
    running.put(key, None)
    assert epsilon_sweep(running.releases(), delta=1e-5).epsilon == together
    assert epsilon_sweep(running.releases("new", out), delta=1e-5).epsilon == (
        epsilon_sweep(releases, delta=1e-5).epsilon
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(RELEASES, min_size=1, max_size=8), st.sampled_from((1e-5, 1e-3)))
def test_the_quick_bound_is_one_and_follows_what_comes_and_goes(
    releases: list[Release], delta: float
) -> None:
    """It never says less than the exact composition, and what is taken out leaves no trace."""
    running = Composition(releases)
    bound = running.bound().epsilon(delta=delta)
    assert bound >= epsilon_sweep(releases, delta=delta, exact=True).epsilon
    grouped = release(mechanism(unit="group"))
    assert math.isinf(running.bound("new", grouped).epsilon(delta=delta)), "units are mixed"
    endless = release(build_sgd())
    running.put("new", endless)
    assert math.isinf(running.bound().epsilon(delta=delta))
    running.put("new", None)
    for key in range(1, len(releases)):
        running.put(key, None)
    alone = Composition(releases[:1]).bound().epsilon(delta=delta)
    assert running.bound().epsilon(delta=delta) == pytest.approx(alone, rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(RELEASES, st.sampled_from((1e-5, 1e-3)))
def test_the_quick_bound_of_one_release_is_its_renyi_epsilon(what: Release, delta: float) -> None:
    direct = _renyi.of_release(what, delta=delta, orders=_renyi.FEW_ORDERS)
    assert Composition([what]).bound().epsilon(delta=delta) == pytest.approx(direct, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(RELEASES, st.floats(-12, 0), st.booleans())
def test_a_release_that_is_taken_out_does_not_hide_the_others(
    kept: Release, log_noise: float, is_selection: bool
) -> None:
    """However large it was: the bound is a sum, of which the release was nearly all."""
    dear = release(mechanism(10.0**log_noise))
    if is_selection:
        dear = best_of([dear], mean=10, shape=1)
    running = Composition([kept])
    running.put("dear", dear)
    running.put("dear", None)
    exact = epsilon_sweep([kept], delta=1e-5, exact=True).epsilon
    assert running.bound().epsilon(delta=1e-5) >= exact


def build_sgd() -> Mechanism:
    return build_from(
        "sgd", PrivacyConfig(delta=1e-5), training=TrainingConfig(epochs=1), num_records=2_560
    )


def test_a_filter_counts_each_release_once_and_refuses_what_is_too_much() -> None:
    what = release(mechanism())
    filter_ = RdpFilter.of(2.0, delta=1e-5)
    room = math.floor(filter_.budget / filter_.cost(what))
    assert room > 2, "of two others the larger may pass for their sum"
    total = TotalBudget(2.0, filter_=filter_)
    for number in range(room):
        assert total.refusal(number, what, delta=1e-5) is None
        total.charge(number, release(mechanism(), last=1), delta=1e-5)
        total.charge(number, what, delta=1e-5)  # in the place of the shorter one
    assert total.refusal("more", what, delta=1e-5) == (
        f"budget.total=2 has no room for it with the {room} attempts before it (filter)"
    )
    assert total.refusal(0, what, delta=1e-5) is None, "it takes its own place"
    grouped = release(mechanism(unit="group"))
    assert "one neighboring_relation and one unit" in str(total.refusal("g", grouped, delta=1e-5))


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
    priced, account = trial("a", epsilon_budget=limit.epsilon), Account()
    assert gate(priced, account=account, budget=limit).begin("a", attempt=1, epochs_done=0) is None
    again = gate(priced, account=account, budget=limit, spent=account.entries)
    assert again.begin("a", attempt=1, epochs_done=1) is None
    assert all(again.go_on("a", epochs_done=done) is None for done in (2, 3))
    replayed = gate(priced, account=account, budget=limit, spent=account.entries)
    assert replayed.begin("a", attempt=1, epochs_done=1) is not None

"""The gate charges before it permits and never exceeds a budget."""

from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.parts import Budget
from sweep.spending.gate import SpendGate, open_gate
from sweep.spending.ledger import (
    FILE,
    Entry,
    Ledger,
    PricedTrial,
    attempt_key,
    entry_for,
)
from sweep.store import state as log
from sweep.store.plans import PlannedTrial
from sweep.store.state import SweepState
from tests.accountants._mechanisms import mechanism as made
from tests.accountants.outside import (
    algorithm_1,
    composed,
    divergence,
    events_of,
    gaussian_epsilon,
)
from tests.sweep.sweeps import space_in
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp.accounting.accountants import paper_zcdp
from trainables.dp.accounting.composition import RdpFilter
from trainables.dp.accounting.releases import Start, release

EPOCHS = 3
NOISES = {"a": 10.0, "b": 20.0, "c": 40.0}


def mechanism(noise=20.0, *, epochs=EPOCHS, delta=1e-5):
    return made(noise_multiplier=noise, epochs=epochs, delta=delta, workers=2)


def plain_mechanism():
    return made("sgd", epochs=EPOCHS)


def trial(name, *, baseline=False, **fields):
    what = fields.pop("mechanism", mechanism())
    training = {"epochs": what.epochs} if what.trains else {}
    planned = PlannedTrial(
        id=name,
        variant="edp",
        baseline=baseline,
        values={},
        origin=parse({"engine": what.engine, "training": training}),
        **fields,
    )
    return PricedTrial(trial=planned, mechanism=what, dataset="d", dataset_name="mine")


@dataclass
class Charges:
    """Keeps what it was charged; `refuse` is its answer."""

    refuse: str | None = None
    entries: list[Entry] = field(default_factory=list)

    def __call__(self, entry):
        if self.refuse is None:
            self.entries.append(entry)
        return self.refuse

    def spent(self):
        last = {attempt_key(entry): entry.release for entry in self.entries}
        return composed(last.values(), delta=1e-5)


def gate(*trials, charge=None, **fields):
    budget = fields.pop("budget", None) or Budget(total=fields.pop("total", None))
    priced = {each.trial.id: each for each in trials}
    return SpendGate(
        sweep="s", trials=priced, budget=budget, charge=charge or Charges(), **fields
    )


def train(opened, name, *done, attempt=1):
    """The answers to beginning an attempt after `done[0]` epochs and going on after
    each other.
    """
    begun = opened.begin(name, attempt=attempt, epochs_done=done[0])
    return [begun, *(opened.go_on(name, epochs_done=each) for each in done[1:])]


def test_what_trials_start_from_counts_once_in_their_total():
    """Also where some have begun before; and in the budget of a trial whose epochs
    repeat.
    """
    start = Start(source="an export", releases=(release(mechanism()),))
    trials = [
        trial(name, mechanism=replace(mechanism(), starts=(start,))) for name in "ab"
    ]
    trials.append(trial("c"))  # which starts from a public encoder
    charges, total = Charges(), 1.01 * cost(3)
    opened = gate(*trials, charge=charges, total=total)
    for name in "ab":
        assert train(opened, name, *range(EPOCHS + 1)) == [None] * (EPOCHS + 1)
    assert all(entry.starts == (start,) for entry in charges.entries)
    for each in (opened, gate(*trials, total=total, spent=charges.entries)):
        assert "exceeds budget.total" in train(each, "c", 0, 1, 2)[-1]
        assert "exceeds budget.total" in each.refusal(trials[2])
    waiting = gate(trials[0], total=1.01 * cost(2))
    assert "exceeds budget.total" in waiting.refusal(trials[2])
    assert gate(trial("a"), total=1.01 * cost(2)).refusal(trials[2]) is None
    first, again = charges.entries[EPOCHS - 1], Charges()
    repeats = gate(
        trials[0], charge=again, budget=Budget(epsilon=1.01 * cost(2)), spent=[first]
    )
    assert "with earlier attempts exceeds" in train(repeats, "a", 0, attempt=2)[0]
    alone = replace(first, starts=())
    plain = gate(trial("a"), budget=Budget(epsilon=1.01 * cost(2)), spent=[alone])
    assert train(plain, "a", 0, attempt=2) == [None]


def cost(number, *, epochs=EPOCHS, delta=1e-5):
    """Epsilon of so many trials of `mechanism()`, whose noise is 20 on two workers."""
    sigmas = algorithm_1(20.0, workers=2, epochs=number * epochs)
    return gaussian_epsilon(*sigmas, delta=delta)


def test_a_trial_that_reads_no_record_is_charged_nothing():
    free = build(
        parse({"engine": "untrained", "model": {"name": "features"}}), num_records=2_560
    )
    charges = Charges()
    tight = Budget(epsilon=1e-6, accountant="paper", total=1e-6)
    found = gate(trial("prior", mechanism=free), charge=charges, budget=tight)
    assert train(found, "prior", 0, 1) == [None, None]
    assert found.refusal(trial("other", mechanism=free)) is None
    assert charges.entries == []
    read = replace(free, undeclared=("the label set is the records' own",))
    found = gate(
        trial("prior", mechanism=read), charge=charges, budget=Budget(epsilon=1.0)
    )
    assert train(found, "prior", 0) != [None]


def test_what_the_ledger_refuses_is_not_permitted_and_not_counted():
    charges = Charges(refuse="no room")
    opened = gate(trial("a"), trial("b"), charge=charges, total=cost(1) * 1.001)
    assert train(opened, "a", 0) == ["no room"]
    charges.refuse = None
    assert train(opened, "b", 0, 1, 2, 3) == [None] * 4

    class Full(Charges):
        def __call__(self, entry):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        train(gate(trial("a"), charge=Full()), "a", 0)


@pytest.mark.parametrize(
    ("accountant", "admitted", "again", "refusal"),
    [
        ("sound", 3, (1, 2), "with earlier attempts exceeds budget.epsilon"),
        # A stopped trial that goes on from an earlier epoch than its last one.
        ("sound", 4, (2, 1, 2), "with earlier attempts exceeds budget.epsilon"),
        # It has no figure of repeated epochs, so it bounds the trial's own.
        ("paper", 3, (1, 2, 3), "(paper) after 4 epochs exceeds"),
    ],
)
def test_epochs_of_an_earlier_attempt_are_spent_too(
    accountant, admitted, again, refusal
):
    """Of nine, so many are admitted, those that were trained twice included."""
    what, charges = mechanism(epochs=9), Charges()
    limit = cost(1, epochs=admitted) * 1.0001
    if accountant == "paper":
        limit = paper_zcdp.epsilon(what.first(admitted), delta=1e-5) * 1.0001
    parts = {"charge": charges, "budget": Budget(epsilon=limit, accountant=accountant)}
    assert train(gate(trial("a", mechanism=what), **parts), "a", 0, 1) == [None] * 2
    resumed = gate(trial("a", mechanism=what), **parts, spent=charges.entries)
    *permitted, refused = train(resumed, "a", *again)
    assert permitted == [None] * (len(again) - 1)
    assert refusal in str(refused)
    assert accountant == "paper" or charges.spent() <= limit


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_order_of_events_passes_the_total(data):
    """Trials begin, train, crash and begin again; the composition knows the whole
    account.
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
            [reason] = train(opened, name, 0)
        else:
            reason = opened.go_on(name, epochs_done=done[name])
        done[name] = min(done[name] + 1, EPOCHS) if reason is None else 0
    assert charges.spent() <= limit


@pytest.mark.parametrize("is_over", [False, True])
def test_what_may_begin_is_asked_at_the_smallest_delta_of_all(is_over):
    """As each of its epochs will be: else it would be stopped halfway."""
    strict, lax = (mechanism(delta=delta) for delta in (1e-9, 1e-3))
    total = sum(cost(2, delta=at) for at in (1e-9, 1e-3)) / 2
    state = SweepState()
    opened = gate(trial("a", mechanism=strict), total=total, state=lambda: state)
    assert train(opened, "a", 0, 1, 2) == [None] * 3
    if is_over:
        state.add(log.StatusChanged(entry="failed", trial="a"))
    assert "exceeds budget.total" in str(opened.refusal(trial("b", mechanism=lax)))


@pytest.mark.parametrize(
    "deltas", [(1e-9, 1e-3, 1e-3), (1e-3, 1e-9, 1e-3), (1e-3, 1e-3, 1e-9)]
)
def test_trials_that_have_not_begun_count_with_their_delta(deltas):
    total = (cost(3, delta=1e-9) + cost(3, delta=1e-3)) / 2
    first, second, other = (
        trial(name, mechanism=mechanism(delta=delta))
        for name, delta in zip("abc", deltas, strict=True)
    )
    assert "exceeds budget.total" in str(
        gate(first, second, total=total).refusal(other)
    )
    assert (
        gate(first, second, total=cost(3, delta=1e-9) * 1.0001).refusal(other) is None
    )


def test_a_baseline_is_charged_and_held_against_nothing():
    charges = Charges()
    plain = plain_mechanism()
    opened = gate(
        trial("sgd", baseline=True, mechanism=plain), charge=charges, total=1e-6
    )
    assert train(opened, "sgd", 0) == [None]
    assert charges.entries[0].baseline
    assert opened.refusal(trial("other")) is not None, "any other trial is too dear"
    assert opened.refusal(trial("other", baseline=True, mechanism=plain)) is None
    roomy = gate(trial("sgd", baseline=True, mechanism=plain), total=cost(1) * 1.001)
    assert roomy.refusal(trial("other")) is None, "which would be infinite beside it"


def test_a_baseline_of_a_private_engine_pays_like_any_trial():
    """Its budget of one trial, the sweep's total of two, and the ledger of all
    sweeps.
    """
    charges = Charges()
    dear = trial("dear", baseline=True, mechanism=mechanism(1.0))
    opened = gate(dear, charge=charges, budget=Budget(epsilon=cost(1)))
    assert "exceeds budget.epsilon" in str(train(opened, "dear", 0))
    both = [trial(name, baseline=True) for name in "ab"]
    opened = gate(*both, charge=charges, total=cost(1) * 1.001)
    assert train(opened, "a", 0, 1, 2, 3) == [None] * 4
    assert "exceeds budget.total" in str(train(opened, "b", 0))
    assert not any(entry.baseline for entry in charges.entries)
    assert opened.refusal(trial("c", baseline=True)) is not None


def test_a_trial_that_no_plan_admitted_stops_where_its_epsilon_would_be_passed():
    """Its budget is asked at each epoch, whatever a plan says that its epochs cost."""
    what = mechanism()
    two, three = (cost(1, epochs=n) for n in (2, 3))
    limit = Budget(epsilon=(two + three) / 2)
    # Without a budget, under a larger one, and by a figure that is too low.
    for planned in (None, three, limit.epsilon):
        opened = gate(trial("a", mechanism=what, epsilon_budget=planned), budget=limit)
        *permitted, refused = train(opened, "a", 0, 1, 2)
        assert permitted == [None] * 2
        assert "budget.epsilon" in str(refused)
    admitted = gate(trial("a", mechanism=what), budget=Budget(epsilon=three))
    assert train(admitted, "a", 0, 1, 2, 3) == [None] * 4


def test_an_attempt_that_replays_nothing_costs_what_the_trial_was_planned_for():
    """The plan has admitted all its epochs: each of them is trained once."""
    limit = Budget(epsilon=cost(1))
    priced, charges = trial("a", epsilon_budget=limit.epsilon), Charges()
    assert train(gate(priced, charge=charges, budget=limit), "a", 0) == [None]
    again = gate(priced, charge=charges, budget=limit, spent=charges.entries)
    assert train(again, "a", 1, 2, 3) == [None] * 3
    replayed = gate(priced, charge=charges, budget=limit, spent=charges.entries)
    assert train(replayed, "a", 1) != [None]


def entry(name, **other):
    given = {"dataset": "aaa", "sweep": "s", "epochs": EPOCHS, **other}
    return entry_for(given.pop("of", mechanism()), trial=name, **given)


def test_a_bound_over_all_sweeps_has_room_until_it_is_full(tmp_path):
    """Refused before and at the charge; a baseline without noise is exempt and uses no
    room, one of a private engine pays like any trial. A longer entry of an attempt
    takes the place of the shorter one. Without a bound everything is charged.
    """
    ledger = Ledger(tmp_path / FILE)
    charge = partial(ledger.charge, budget_total=cost(2) * (1 + 1e-9))
    sgd = entry("b", of=plain_mechanism(), baseline=True)
    for number, what in enumerate((entry("t1", epochs=1), entry("t2"), entry("t1"))):
        assert len(ledger.entries()) == number
        assert charge(what) is None
    assert charge(sgd) is None
    for more in (
        entry("t3"),
        entry("t3", baseline=True),
        entry("t1", epochs=1, attempt=2),
    ):
        assert "exceeds --budget-total" in str(charge(more))
    assert [each.trial for each in ledger.entries()] == ["t1", "t2", "t1", "b"]
    assert ledger.charge(entry("t3")) is None
    assert ledger.charge(entry("t3", epochs=1), budget_total=cost(3) * 0.999), (
        "what is paid stays"
    )
    other = partial(ledger.charge, budget_total=cost(1) * (1 + 1e-9))
    assert other(entry("t3", dataset="bbb")) is None, (
        "of data sets without a common record"
    )
    assert ledger.charge(entry("t4")) is None
    assert other(entry("t3", dataset="bbb")) is None, (
        "what is charged in between adds nothing"
    )
    assert ledger.spend("bbb").num_trials == 1
    assert len(ledger.entries()) == 8


def folder_with(space, ended):
    """What a gate reads of a sweep's folder."""
    state = SweepState()
    for name in ended:
        state.add(log.StatusChanged(entry="failed", trial=name))
    parts = {"space": lambda: space, "budget_total": None, "state": lambda: state}
    return SimpleNamespace(ledger_name="s", plan=lambda: state.plan, **parts)


def test_a_gate_has_the_limits_of_its_space_and_what_its_sweep_spent(tmp_path):
    """Its total by the filter, and the entries of the sweep's name."""
    ledger = Ledger(tmp_path / FILE)
    space = space_in(tmp_path, budget={"total": 3.0})
    room, what = RdpFilter.of(3.0, delta=1e-5), mechanism(40.0)
    ledger.charge(entry("t1", of=what))

    def opened(filter_):
        priced = [trial(name, mechanism=what) for name in ("t1", "t2")]
        return open_gate(
            folder_with(space, []), priced, ledger=ledger, total_filter=filter_
        )

    assert opened(room).refusal() is None
    assert train(opened(room), "t2", 0) == [None]
    one = divergence(*events_of([release(what)]), order=room.order)
    just_one = replace(room, budget=one * (1 + 1e-9))
    assert train(opened(just_one), "t2", 0) == [
        "budget.total=3 has no room for it with the 2 attempts before it (filter)"
    ]
    assert train(opened(room), "t1", 2) == [None]
    assert [each.attempt for each in ledger.entries() if each.trial == "t1"] == [1, 2]


@pytest.mark.parametrize("ended", [["t1"], ["t2"], ["t2", "t1"]])
def test_trials_that_ended_early_leave_the_room_that_they_did_not_use(tmp_path, ended):
    ledger = Ledger(tmp_path / FILE)
    for name in ended:
        ledger.charge(entry(name, dataset="d", epochs=1))
    total = cost(1, epochs=3 * EPOCHS - 2 * len(ended)) * 1.001
    space = space_in(tmp_path, budget={"total": total})
    more, *priced = (trial(name) for name in ("t3", "t1", "t2"))
    assert (
        open_gate(folder_with(space, ended), priced, ledger=ledger).refusal(more)
        is None
    )
    unended = folder_with(space, ended[:-1])
    refused = str(open_gate(unended, priced, ledger=ledger).refusal(more))
    assert "of all trials exceeds budget.total" in refused

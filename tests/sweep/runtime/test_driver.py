"""The driver charges before it permits, writes before it answers, and never exceeds a budget."""

import math
import shutil
from dataclasses import replace

import pytest

from sweep.planning import plan as planning
from sweep.planning.accounting import accounting
from sweep.runtime.driver import Driver
from sweep.runtime.events import TrialEvent, Verdict
from sweep.spending.entries import PricedTrial
from sweep.spending.gate import open_gate
from sweep.spending.ledger import FILE, Ledger
from sweep.store import sweeps as store
from tests.sweep.sweeps import settings_in, space_in
from trainables import accountants
from trainables.cards import card as cards
from trainables.config import parse
from trainables.figure_cache import FigureCache
from trainables.privacy.from_config import build
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint


class Stage:
    """A sweep on disk and the driver of it; `again` is the next process after a crash."""

    def __init__(self, folder, **fields):
        self._settings = settings_in(folder)
        space = space_in(folder, **fields)
        plan = planning.make(space, account=accounting(self._settings))
        self.folder = store.create(self._settings.home, space, plan, about={})
        self.ledger = Ledger(self._settings.home / FILE)
        self.sgd, self.first, self.second = (trial.id for trial in plan.trials)
        self.driver = self.again()

    def gate(self):
        account = accounting(self._settings)
        trials = [
            PricedTrial(
                trial=trial,
                mechanism=account(trial.config, accountant=None, careful=False).mechanism,
                dataset="f1",
                dataset_name="mine",
            )
            for trial in self.folder.plan().trials
        ]
        return open_gate(self.folder, trials, ledger=self.ledger)

    def again(self):
        self.open_gate = self.gate()
        self.figures = FigureCache(self._settings.cache_dir)
        return Driver(self.open_gate, self.folder, figures=self.figures)

    def entries(self, trial_id):
        entries = self.ledger.of_sweep(self.folder.ledger_name)
        return [entry for entry in entries if entry.trial == trial_id]

    def paid(self, trial_id):
        return [(e.attempt, e.first_epoch, e.epochs) for e in self.entries(trial_id)]


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def begin(trial_id, *, attempt=1):
    return TrialEvent(kind="started", trial_id=trial_id, attempt=attempt)


def epoch(trial_id, done, *, attempt=1, ser=0.5):
    report = EpochReport(epochs_done=done, seconds=0.1, metrics={"validation_ser": ser})
    return TrialEvent(kind="epoch", trial_id=trial_id, attempt=attempt, report=report)


def finish(trial_id, epochs, *, early=False):
    result = TrialResult(
        trial_id=trial_id, epochs_done=epochs, stopped_early=early, metrics={}, privacy=None
    )
    return TrialEvent(kind="finished", trial_id=trial_id, result=result)


def keep_checkpoint(stage, trial_id):
    """An empty checkpoint; returns its state's file."""
    place = stage.folder.trial_folder(trial_id)
    checkpoint.save(place, checkpoint.Checkpoint(tensors={}, state={}))
    return place / "checkpoint" / "state.json"


def test_an_epoch_is_paid_before_it_is_permitted(stage):
    for event, paid in [
        (begin(stage.first), [(1, 0, 1)]),
        (epoch(stage.first, 1), [(1, 0, 2)]),
        (epoch(stage.first, 2), [(1, 0, 3)]),
        (epoch(stage.first, 3), [(1, 0, 3)]),  # the last: nothing more to pay
        (finish(stage.first, 3), [(1, 0, 3)]),
    ]:
        assert stage.driver(event) == Verdict()
        assert stage.paid(stage.first) == paid
    assert [row["epochs_done"] for row in stage.folder.epochs(stage.first)] == [1, 2, 3]
    assert stage.folder.record(stage.folder.plan().trials[1], running=False).status == "done"


@pytest.mark.parametrize("early", [False, True])
def test_an_ended_trial_keeps_no_checkpoint(stage, early):
    stage.driver(begin(stage.first))
    place = stage.folder.trial_folder(stage.first)
    checkpoint.save(place, checkpoint.Checkpoint(tensors={}, state={}))
    stage.driver(epoch(stage.first, 1))
    stage.driver(finish(stage.first, 1, early=early))
    assert not checkpoint.is_there(place)


@pytest.mark.parametrize("damage", ["", "[]", "[" * 100_000, None])
def test_a_damaged_checkpoint_fails_its_trial_alone_and_charges_nothing(stage, damage):
    stage.driver(begin(stage.first))
    stage.driver(epoch(stage.first, 1))
    state = keep_checkpoint(stage, stage.first)
    if damage is None:
        state.unlink()
    else:
        state.write_text(damage)
    before = stage.paid(stage.first)
    driver = stage.again()
    verdict = driver(begin(stage.first))
    assert not verdict.go_on
    assert "restore the checkpoint from a copy, or remove it" in verdict.reason
    record = stage.folder.record(stage.folder.plan().trials[1], running=False)
    assert (record.status, record.epochs_done) == ("failed", 1)
    assert str(state.parent) in str(record.reason)
    assert stage.paid(stage.first) == before
    assert driver(begin(stage.second)).go_on
    shutil.rmtree(state.parent)  # as the reason says
    assert stage.again()(begin(stage.first)) == Verdict()
    assert stage.paid(stage.first) == [*before, (2, 0, 1)]


def test_a_permission_that_cannot_be_paid_is_not_given(stage, monkeypatch):

    def full(entry):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stage.open_gate, "charge", full)
    with pytest.raises(OSError, match="No space left"):
        stage.driver(begin(stage.first))


def test_a_trial_resumed_after_a_crash_is_a_new_attempt(stage):
    stage.driver(begin(stage.first))
    stage.driver(epoch(stage.first, 1))
    keep_checkpoint(stage, stage.first)
    after = stage.again()  # killed in epoch 2, which was paid for
    after(begin(stage.first))
    assert stage.paid(stage.first) == [(1, 0, 2), (2, 1, 2)]
    after(epoch(stage.first, 1))  # the checkpoint's epoch once more
    after(epoch(stage.first, 2))
    assert stage.paid(stage.first) == [(1, 0, 2), (2, 1, 3)]
    assert [row["epochs_done"] for row in stage.folder.epochs(stage.first)] == [1, 2]


def test_what_a_scheduler_stops_is_written_down_and_pays_for_nothing_more(stage):
    stage.driver(begin(stage.first))
    verdict = stage.driver(replace(epoch(stage.first, 1), reason="stopped by the scheduler"))
    assert verdict == Verdict("stopped by the scheduler")
    assert stage.paid(stage.first) == [(1, 0, 1)]
    assert [row["epochs_done"] for row in stage.folder.epochs(stage.first)] == [1]


def test_a_trial_that_took_all_its_epochs_is_not_shown_as_stopped(stage):
    """A scheduler ends a trial at its last epoch too."""
    shown = []
    stage.driver = Driver(
        stage.open_gate,
        stage.folder,
        figures=stage.figures,
        watch=lambda _, progress: shown.append((progress.status, progress.reason)),
    )
    ended = "stopped by the scheduler"
    stage.driver(begin(stage.first))
    stage.driver(replace(finish(stage.first, 3), reason=ended))
    assert shown[-1] == ("done", "")
    stage.driver(begin(stage.second))
    early = replace(finish(stage.second, 1), reason=ended)
    assert early.result is not None
    stage.driver(replace(early, result=replace(early.result, stopped_early=True)))
    assert shown[-1] == ("stopped", ended)


def test_a_resumed_trial_costs_as_much_as_an_uninterrupted_one(tmp_path):
    """Its budget has room for three epochs by an exact figure: a bound of two parts would pass it.
    A fourth permission, for an epoch that a crash repeats, is refused.
    """
    for part in ("whole", "parts"):
        (tmp_path / part).mkdir()
    whole = Stage(tmp_path / "whole")
    planned = whole.folder.plan().trials[1].epsilon_budget
    stage = Stage(tmp_path / "parts", budget={"epsilon": planned})
    stage.driver(begin(stage.first))
    stage.driver(replace(epoch(stage.first, 1), reason="stopped by the scheduler"))
    stage.driver(finish(stage.first, 1))
    keep_checkpoint(stage, stage.first)
    after = stage.again()
    assert after(begin(stage.first)) == Verdict()
    assert after(epoch(stage.first, 1)) == Verdict()
    assert after(epoch(stage.first, 2)) == Verdict()
    assert stage.paid(stage.first) == [(1, 0, 1), (2, 1, 3)]
    crashed = stage.again()  # in epoch 3, which was paid for
    refused = crashed(begin(stage.first))
    assert not refused.go_on
    assert "with earlier attempts exceeds" in refused.reason


def test_a_worker_killed_within_a_run_is_a_new_attempt_too(stage):
    stage.driver(begin(stage.first))
    stage.driver(epoch(stage.first, 1))
    keep_checkpoint(stage, stage.first)
    stage.driver(begin(stage.first, attempt=2))
    assert stage.paid(stage.first) == [(1, 0, 2), (2, 1, 2)]


@pytest.mark.parametrize("left", [None, "checkpoint.bak"])
def test_without_a_checkpoint_everything_is_paid_again(stage, left):
    """A copy under another name is no checkpoint: the trial would train unpaid epochs."""
    stage.driver(begin(stage.first))
    stage.driver(epoch(stage.first, 1))
    if left is not None:
        place = keep_checkpoint(stage, stage.first).parent
        place.rename(place.with_name(left))
    stage.again()(begin(stage.first))
    assert stage.paid(stage.first) == [(1, 0, 2), (2, 0, 1)]


def spent(stage, trial_id):
    return stage.folder.state().trial(trial_id).seconds_spent


def curve(stage, trial_id):
    rows = stage.folder.epochs(trial_id)
    return [(row["epochs_done"], row["metrics"]["validation_ser"]) for row in rows]


def test_a_trial_that_begins_anew_has_the_epochs_of_its_new_beginning(tmp_path):
    """All of its time counts, and both beginnings were paid for."""
    stage = Stage(tmp_path)
    for event in (begin(stage.first), epoch(stage.first, 1), epoch(stage.first, 2)):
        stage.driver(event)
    after = stage.again()
    after(begin(stage.first))
    assert curve(stage, stage.first) == []
    after(epoch(stage.first, 1, ser=0.9))
    assert curve(stage, stage.first) == [(1, 0.9)]
    after(epoch(stage.first, 2, ser=0.8))
    assert curve(stage, stage.first) == [(1, 0.9), (2, 0.8)]
    assert stage.paid(stage.first) == [(1, 0, 3), (2, 0, 3)]
    assert spent(stage, stage.first) == pytest.approx(0.4)


def test_a_new_beginning_that_is_denied_leaves_the_earlier_epochs(stage, monkeypatch):
    for event in (begin(stage.first), epoch(stage.first, 1)):
        stage.driver(event)
    after = stage.again()
    monkeypatch.setattr(stage.open_gate, "begin", lambda *_, **__: "no room")
    assert after(begin(stage.first)) == Verdict("no room")
    assert curve(stage, stage.first) == [(1, 0.5)]


def resumed_from_epoch_1_of_2(stage):
    """The driver of a trial whose checkpoint is older than its rows, after the repeated report."""
    for event in (begin(stage.first), epoch(stage.first, 1), epoch(stage.first, 2)):
        stage.driver(event)
    keep_checkpoint(stage, stage.first)
    after = stage.again()
    after(begin(stage.first))
    after(epoch(stage.first, 1))
    return after


def test_epochs_after_an_older_checkpoint_are_those_that_it_led_to(tmp_path):
    stage = Stage(tmp_path)
    after = resumed_from_epoch_1_of_2(stage)
    assert curve(stage, stage.first) == [(1, 0.5)]
    after(epoch(stage.first, 2, ser=0.8))
    assert curve(stage, stage.first) == [(1, 0.5), (2, 0.8)]
    assert spent(stage, stage.first) == pytest.approx(0.3), "1, 2, and 2 again"


def test_a_checkpoint_older_than_the_rows_is_paid_from_where_it_is(stage):
    resumed_from_epoch_1_of_2(stage)
    assert stage.paid(stage.first) == [(1, 0, 3), (2, 2, 3), (2, 1, 2)]


def test_what_a_crash_spent_counts_against_the_budget(tmp_path):
    """A budget of exactly three epochs: a replayed one leaves room for two."""
    config = parse(space_in(tmp_path).base)
    limit = accountants.account(build(config, num_records=90)).epsilon
    stage = Stage(tmp_path, budget={"epsilon": limit})
    assert stage.driver(begin(stage.second)).go_on
    assert stage.driver(epoch(stage.second, 1)).go_on
    keep_checkpoint(stage, stage.second)
    after = stage.again()
    assert after(begin(stage.second)).go_on
    assert after(epoch(stage.second, 1)).go_on
    verdict = after(epoch(stage.second, 2))
    assert not verdict.go_on
    assert "with earlier attempts exceeds budget.epsilon" in verdict.reason
    spent = accountants.certify(
        [entry.release for entry in stage.entries(stage.second)], delta=1e-5, effort="total"
    )
    assert spent.epsilon <= limit


def test_a_total_holds_over_trials_and_spares_the_baseline(tmp_path):
    config = parse(space_in(tmp_path).base)
    release = accountants.release(build(config, num_records=90))
    limit = (
        accountants.certify([release, release.scale_noise(2)], delta=1e-5, effort="total").epsilon
        * 1.01
    )
    stage = Stage(tmp_path, budget={"total": limit})
    for trial_id in (stage.sgd, stage.second):
        assert stage.driver(begin(trial_id)).go_on
        assert all(stage.driver(epoch(trial_id, done)).go_on for done in (1, 2, 3))
    verdict = stage.driver(begin(stage.first))  # z0 = 0.5: four times the cost of z0 = 1
    assert not verdict.go_on
    assert "exceeds budget.total" in verdict.reason
    assert stage.paid(stage.first) == []


def test_a_namesake_of_a_deleted_sweep_starts_its_own_account(tmp_path):
    first = Stage(tmp_path)
    first.driver(begin(first.first))
    before = first.folder.ledger_name
    first.folder.delete()
    second = Stage(tmp_path)
    assert second.folder.ledger_name != before
    second.driver(begin(second.first))
    assert len({entry.sweep for entry in second.ledger.entries()}) == 2


def test_every_row_says_what_had_been_spent(stage):
    stage.driver(begin(stage.first))
    stage.driver(epoch(stage.first, 1))
    (row,) = stage.folder.epochs(stage.first)
    mechanism = build(parse(stage.folder.plan().trials[1].config), num_records=90)
    assert row["metrics"]["epsilon_spent"] == accountants.epsilon_after(mechanism, 1)
    assert set(row["metrics"]) == {"validation_ser", "epsilon_spent", "epsilon_paper_spent"}


def test_the_reported_spend_is_an_upper_bound():
    decay = {"kind": "linear", "tau": 0.1}
    config = parse({"engine": "dp_sgd", "privacy": {"noise_decay": decay, "delta": 1e-5}})
    mechanism = build(config, num_records=1_000)
    for epochs in (1, 6):
        exact = accountants.account(mechanism.first(epochs)).epsilon
        assert exact <= accountants.bounds_after(mechanism, epochs)["epsilon_spent"] < 2 * exact


def test_a_trial_that_has_ended_has_a_card_of_what_it_ran(stage):
    trial = stage.folder.plan().trials[1]
    ran = build(trial.config, num_records=90, undeclared=("labels",)).first(2)
    stage.driver(begin(stage.first))
    event = finish(stage.first, 2)
    assert event.result is not None
    made = cards.make(ran, accountants.account(ran), trial_id="draw", corpus="mine")
    stage.driver(replace(event, result=replace(event.result, privacy=made)))
    card = stage.folder.record(trial, running=False).privacy
    assert card.trial_id == stage.first
    assert (card.epsilon, card.unaccounted) == (math.inf, ("labels",))
    assert card.mechanism["epochs"] == 2
    assert card.datasets["training"].name == "mine"
    page = (stage.folder.trial_folder(stage.first) / "privacy_card.md").read_text()
    assert "No finite epsilon holds" in page

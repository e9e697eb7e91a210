"""The driver charges before it permits, writes before it answers, and never exceeds a
budget.
"""

import math
import shutil

import pytest

from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from sweep.planning.pricing import price
from sweep.runtime import ray_session
from sweep.runtime.driver import Driver
from sweep.runtime.events import RunSettings, TrialEvent, Verdict
from sweep.spending.gate import open_gate
from sweep.spending.ledger import FILE, Ledger
from sweep.store import manifest
from sweep.store import sweeps as store
from tests.sweep.sweeps import settings_in, space_in
from trainables.cards import card as cards
from trainables.config.mechanism import build
from trainables.dp.accounting import choose
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint


class Stage:
    """A sweep and its driver, told of the second trial by default; `crash` is the next
    process.
    """

    def __init__(self, folder, **fields):
        self._settings = settings_in(folder)
        space = space_in(folder, **fields)
        plan = planning.make(space, account=Accounting(self._settings))
        self.folder = store.create(self._settings.home, space, plan, about={})
        self.ledger = Ledger(self._settings.home / FILE)
        self.trials = plan.trials
        _, self.first, self.second = (trial.id for trial in plan.trials)
        self.place = self.folder.trial_folder(self.first)
        self.crash()

    def crash(self, **named):
        priced = price(self.folder.plan().trials, Accounting(self._settings))
        self.gate = open_gate(self.folder, priced, ledger=self.ledger)
        self.driver = Driver(self.gate, self.folder, **named)

    def begin(self, trial=None, *, attempt=1):
        trial = trial or self.first
        return self.driver(TrialEvent(kind="started", trial_id=trial, attempt=attempt))

    def epoch(self, done, trial=None, *, ser=0.5, reason=""):
        report = EpochReport(
            epochs_done=done, seconds=0.1, metrics={"validation_ser": ser}
        )
        trial = trial or self.first
        return self.driver(
            TrialEvent(kind="epoch", trial_id=trial, report=report, reason=reason)
        )

    def finish(self, epochs, trial=None, *, early=False, reason="", privacy=None):
        trial = trial or self.first
        result = TrialResult(
            trial_id=trial,
            epochs_done=epochs,
            stopped_early=early,
            metrics={},
            privacy=privacy,
        )
        event = TrialEvent(
            kind="finished", trial_id=trial, result=result, reason=reason
        )
        return self.driver(event)

    def train(self, epochs, trial=None):
        """The verdicts of a trial until its epoch."""
        return [
            self.begin(trial),
            *(self.epoch(done + 1, trial) for done in range(epochs)),
        ]

    def keep_checkpoint(self):
        """An empty one; its folder."""
        checkpoint.save(self.place, checkpoint.Checkpoint(tensors={}, state={}))
        return self.place / "checkpoint"

    def record(self):
        return self.folder.record(self.folder.plan().trials[1], running=False)

    def releases(self, trial):
        entries = self.ledger.of_sweep(self.folder.ledger_name)
        return [entry.release for entry in entries if entry.trial == trial]

    @property
    def paid(self):
        entries = self.ledger.of_sweep(self.folder.ledger_name)
        return [
            (e.attempt, e.first_epoch, e.epochs)
            for e in entries
            if e.trial == self.first
        ]

    @property
    def curve(self):
        rows = self.folder.epochs(self.first)
        return [(row["epochs_done"], row["metrics"]["validation_ser"]) for row in rows]

    @property
    def spent(self):
        return self.folder.records()[1].seconds


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def test_an_epoch_is_paid_before_it_is_permitted(stage):
    for event, paid in [
        (stage.begin, (1, 0, 1)),
        (lambda: stage.epoch(1), (1, 0, 2)),
        (lambda: stage.epoch(2), (1, 0, 3)),
        (lambda: stage.epoch(3), (1, 0, 3)),  # the last: nothing more to pay
        (lambda: stage.finish(3), (1, 0, 3)),
    ]:
        assert event() == Verdict()
        assert stage.paid == [paid]
    assert ([done for done, _ in stage.curve], stage.record().status) == (
        [1, 2, 3],
        "done",
    )


@pytest.mark.parametrize("took_memory", [False, True])
def test_the_death_of_a_trials_workers_is_one_line(stage, took_memory, monkeypatch):
    monkeypatch.setattr(ray_session, "took_memory", lambda: took_memory)
    lines = []
    stage.crash(notice=lines.append)
    stage.train(2)
    stage.keep_checkpoint()
    assert lines == []
    why = "its worker processes died"
    stage.driver(
        TrialEvent(kind="started", trial_id=stage.first, attempt=2, reason=why)
    )
    (line,) = lines
    assert line.startswith(f"trial {stage.first} (")
    assert line.endswith("; new ones go on after epoch 2 (attempt 2 of 4)")
    assert ("the memory of the machine ran out" in line) == took_memory
    assert (why in line) != took_memory


@pytest.mark.parametrize("early", [False, True])
def test_an_ended_trial_keeps_no_checkpoint(stage, early):
    stage.train(1)
    stage.keep_checkpoint()
    stage.finish(1, early=early)
    assert not checkpoint.exists(stage.place)


def test_a_damaged_checkpoint_fails_its_trial_alone_and_charges_nothing(stage):
    stage.train(1)
    place = stage.keep_checkpoint()
    (place / "state.json").write_text("[]")
    before = stage.paid
    stage.crash()
    verdict = stage.begin()
    assert not verdict.go_on
    assert "restore the checkpoint from a copy, or remove the folder" in verdict.reason
    record = stage.record()
    assert (record.status, record.epochs_done) == ("failed", 1)
    assert str(place) in str(record.reason)
    assert stage.paid == before
    assert stage.begin(stage.second).go_on
    shutil.rmtree(stage.place)  # as the reason says
    stage.crash()
    assert stage.begin() == Verdict()
    assert stage.paid == [*before, (2, 0, 1)]


STOPPED = "stopped by the scheduler"


def test_what_a_scheduler_stops_is_written_down_and_pays_for_nothing_more(stage):
    stage.begin()
    assert stage.epoch(1, reason=STOPPED) == Verdict(STOPPED)
    assert (stage.paid, stage.curve) == ([(1, 0, 1)], [(1, 0.5)])


def test_a_trial_that_was_stopped_before_a_crash_is_stopped_and_pays_nothing_after_it(
    stage,
):
    stage.begin()
    stage.epoch(1, reason=STOPPED)
    stage.keep_checkpoint()
    stage.crash()
    assert stage.begin() == Verdict()
    assert stage.epoch(1) == Verdict(STOPPED), "reported again, with its checkpoint"
    stage.finish(1, early=True, reason=STOPPED)
    assert (stage.paid, stage.record().status) == ([(1, 0, 1)], "stopped")


def test_an_older_checkpoint_of_a_stopped_trial_is_paid_for(stage):
    """The worker has epoch 1, so it trains epoch 2 again, if the scheduler lets it."""
    stage.train(1)
    stage.epoch(2, reason=STOPPED)
    stage.keep_checkpoint()
    stage.crash()
    stage.begin()
    assert stage.epoch(1) == Verdict()
    assert stage.paid == [(1, 0, 2), (2, 1, 2)]


def test_the_scheduler_is_told_the_epochs_of_all_trials_in_their_order(
    stage, monkeypatch
):
    told = []
    monkeypatch.setattr(
        "sweep.runtime.driver.run_trials", lambda jobs, **o: told.extend(o["past"])
    )
    for trial, done in ((stage.first, 1), (stage.second, 1), (stage.first, 2)):
        if done == 1:
            stage.begin(trial)
        stage.epoch(done, trial, ser=done / 10)
    stage.crash()
    stage.driver.run(RunSettings())
    found = [
        (each.trial_id, each.epochs_done, each.metrics["validation_ser"])
        for each in told
    ]
    assert found == [
        (stage.first, 1, 0.1),
        (stage.second, 1, 0.1),
        (stage.first, 2, 0.2),
    ]


def test_a_trial_that_took_all_its_epochs_is_not_shown_as_stopped(stage):
    """A scheduler ends a trial at its last epoch too."""
    shown = []
    stage.crash(
        watch=lambda _, progress: shown.append((progress.status, progress.reason))
    )
    stage.begin()
    stage.finish(3, reason=STOPPED)
    assert shown[-1] == ("done", "")
    stage.begin(stage.second)
    stage.finish(1, stage.second, early=True, reason=STOPPED)
    assert shown[-1] == ("stopped", STOPPED)


def test_a_copy_under_another_name_is_no_checkpoint(stage):
    """The trial is not trained again unasked: who removes its folder pays everything
    again.
    """
    stage.train(1)
    stage.keep_checkpoint().rename(stage.place / "checkpoint.bak")
    stage.crash()
    verdict = stage.begin()
    assert "expected a checkpoint of 1 epoch" in verdict.reason
    assert (stage.paid, stage.record().status) == ([(1, 0, 2)], "failed")
    shutil.rmtree(stage.place)
    assert stage.begin() == Verdict()
    assert stage.paid == [(1, 0, 2), (2, 0, 1)]


def test_a_trial_that_had_ended_is_not_trained_again_by_an_older_log(stage):
    """It has a manifest and no checkpoint, and the log no epoch."""
    stage.begin()
    manifest.write(stage.place)
    stage.crash()
    assert "expected a checkpoint of 0 epochs" in stage.begin().reason
    assert stage.paid == [(1, 0, 1)]


def test_a_trial_that_begins_anew_has_the_epochs_of_its_new_beginning(stage):
    """All of its time counts, and both beginnings were paid for."""
    stage.train(2)
    stage.crash()
    shutil.rmtree(stage.place)
    stage.begin()
    assert stage.curve == []
    stage.epoch(1, ser=0.9)
    assert stage.curve == [(1, 0.9)]
    stage.epoch(2, ser=0.8)
    assert (stage.curve, stage.paid) == ([(1, 0.9), (2, 0.8)], [(1, 0, 3), (2, 0, 3)])
    assert stage.spent == pytest.approx(0.4)


def test_a_new_beginning_that_is_denied_leaves_the_earlier_epochs(stage, monkeypatch):
    stage.train(1)
    stage.crash()
    shutil.rmtree(stage.place)
    monkeypatch.setattr(stage.gate, "begin", lambda *_, **__: "no room")
    assert stage.begin() == Verdict("no room")
    assert stage.curve == [(1, 0.5)]


def test_after_an_older_checkpoint_the_rows_and_the_charges_are_those_from_there(stage):
    stage.train(2)
    stage.keep_checkpoint()
    stage.crash()
    stage.train(1)
    assert stage.curve == [(1, 0.5)]
    assert stage.paid == [(1, 0, 3), (2, 2, 3), (2, 1, 2)]
    stage.epoch(2, ser=0.8)
    assert stage.curve == [(1, 0.5), (2, 0.8)]
    assert stage.spent == pytest.approx(0.3), "1, 2, and 2 again"


def test_every_row_says_what_had_been_spent(stage):
    stage.train(1)
    (row,) = stage.folder.epochs(stage.first)
    mechanism = build(stage.trials[1].config, num_records=90)
    assert row["metrics"]["epsilon_spent"] == choose.epsilon_after(mechanism, 1)
    assert set(row["metrics"]) == {
        "validation_ser",
        "epsilon_spent",
        "epsilon_paper_spent",
    }


def test_a_trial_that_has_ended_has_a_card_of_what_it_ran(stage):
    ran = build(stage.trials[1].config, num_records=90, undeclared=("labels",)).first(2)
    stage.begin()
    made = cards.make(ran, choose.account(ran), trial_id="draw", corpus="mine")
    stage.finish(2, privacy=made)
    card = stage.record().privacy
    assert card.trial_id == stage.first
    assert (card.epsilon, card.unaccounted) == (math.inf, ("labels",))
    assert (card.mechanism["epochs"], card.datasets["training"].name) == (2, "mine")
    assert "No finite epsilon holds" in (stage.place / "privacy_card.md").read_text()

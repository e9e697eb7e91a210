"""A stopped trial is continued with the same bits as without the stop, and is charged for it."""

import pytest

from sweep.planning.prepare import prepare_space
from sweep.runtime import runner
from sweep.runtime.driver import Driver
from sweep.runtime.events import TrialEvent
from sweep.spending.ledger import FILE, Ledger
from sweep.store.state import TrialStatus
from sweep.store.sweeps import LOG
from tests.sweep.logs import entries, rewrite_sweep
from tests.sweep.sweeps import TOY, settings_in, space_in
from tests.sweep.untracked import NoTracker
from trainables.errors import InvalidData, InvalidInput
from trainables.system import checkpoint

STOPPED = "stopped by the scheduler"


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A finished sweep whose second trial was stopped after one epoch of three."""
    monkeypatch.setattr(runner, "Tracking", NoTracker)
    prepared = prepare_space(space_in(tmp_path), settings=settings_in(tmp_path))
    loser = prepared.plan.trials[1].id
    answer = Driver.__call__

    def stop_one(self, event):
        if event.kind == "epoch" and event.trial_id == loser:
            event = TrialEvent(**{**vars(event), "reason": STOPPED})
        return answer(self, event)

    with monkeypatch.context() as patched:
        patched.setattr(Driver, "__call__", stop_one)
        folder = runner.start(prepared, settings_in(tmp_path), function=TOY).folder
    assert [r.status for r in folder.records()] == ["done", "stopped", "done"]
    return folder


def _resume(folder, *trial_ids):
    place = folder.path.parents[1]
    runner.resume(folder, settings_in(place), take_up=trial_ids, function=TOY)


def _charges(folder, trial_id):
    entries = Ledger(folder.path.parent / FILE).of_sweep(folder.ledger_name)
    return [(e.attempt, e.first_epoch, e.epochs) for e in entries if e.trial == trial_id]


def test_while_it_resumes_it_is_not_shown_as_ended(stopped, tmp_path):
    loser, shown = stopped.plan().trials[1].id, []

    def watch(trial_id, progress):
        if trial_id == loser:
            shown.append((progress.status, progress.epochs_done))

    runner.resume(stopped, settings_in(tmp_path), take_up=[loser], function=TOY, watch=watch)
    begins = shown.index((TrialStatus.RUNNING, 1))
    assert shown[begins - 1] == (TrialStatus.PLANNED, 1)


def test_it_resumes_to_the_same_bits_and_charges_what_ran(stopped, tmp_path):
    loser = stopped.plan().trials[1].id
    assert stopped.record(stopped.plan_of(loser), running=False).reason == STOPPED
    assert _charges(stopped, loser) == [(1, 0, 1)]
    _resume(stopped, loser[:6])
    assert [r.status for r in stopped.records()] == ["done"] * 3
    assert _charges(stopped, loser) == [(1, 0, 1), (2, 1, 3)]
    assert [row["epochs_done"] for row in stopped.epochs(loser)] == [1, 2, 3]
    lines = (stopped.trial_folder(loser) / "trained.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    results = [e["result"] for e in entries(stopped.path / LOG) if e["entry"] == "ended"]
    assert [each["epochs_done"] for each in results if each["trial_id"] == loser] == [1, 3]

    whole = tmp_path / "whole"
    whole.mkdir()
    prepared = prepare_space(space_in(whole), settings=settings_in(whole))
    at_once = runner.start(prepared, settings_in(whole), function=TOY).folder
    assert prepared.plan.trials[1].values == stopped.plan().trials[1].values
    one, other = (f.records()[1].metrics for f in (stopped, at_once))
    assert one["ser"] == other["ser"]


def test_without_a_request_a_stopped_trial_stays_stopped(stopped):
    before = stopped.result(stopped.plan().trials[1].id)
    _resume(stopped)
    assert [r.status for r in stopped.records()] == ["done", "stopped", "done"]
    assert stopped.result(stopped.plan().trials[1].id) == before


def test_refused_in_one_sentence_with_nothing_changed(stopped):
    _, loser, other = (trial.id for trial in stopped.plan().trials)
    for trial_id, message in [
        (other, f"expected --continue with a trial that was stopped, got {other}, which is done"),
        ("zzz", "expected the id of a trial of toy, got 'zzz': no trial"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            _resume(stopped, trial_id)
    space, plan = stopped.space(), stopped.plan()
    spent = space.model_copy(update={"budget": space.budget.model_copy(update={"total": 1e-3})})
    stopped.replace_plan(spent, plan)
    with pytest.raises(InvalidInput, match=f"trial {loser} cannot continue: .*budget.total"):
        _resume(stopped, loser)
    stopped.replace_plan(space, plan)
    place = stopped.trial_folder(loser)
    (place / "checkpoint").rename(place / "checkpoint.bak")
    with pytest.raises(InvalidInput, match=f"trial {loser} has no checkpoint"):
        _resume(stopped, loser)
    assert [r.status for r in stopped.records()] == ["done", "stopped", "done"]


def test_a_checkpoint_that_is_lost_after_the_trial_began_fails_it(stopped, monkeypatch):
    """Begun anew it would train its first epoch, which was paid for only once."""
    loser = stopped.plan().trials[1].id
    place = stopped.trial_folder(loser)
    before = (place / "trained.txt").read_text()
    answer = Driver.__call__

    def lose_it(self, event):
        verdict = answer(self, event)
        if event.kind == "started":
            checkpoint.remove(place)
        return verdict

    monkeypatch.setattr(Driver, "__call__", lose_it)
    _resume(stopped, loser)
    record = stopped.records()[1]
    assert record.status == "failed"
    assert "expected the checkpoint of epoch 1 to continue from, got none" in str(record.reason)
    assert (place / "trained.txt").read_text() == before
    assert _charges(stopped, loser) == [(1, 0, 1), (2, 1, 2)]


def test_a_trial_is_not_continued_with_another_encoder(stopped):
    loser = stopped.plan().trials[1].id
    kept = checkpoint.Checkpoint(tensors={}, state={"encoder_digest": "0" * 64})
    checkpoint.save(stopped.trial_folder(loser), kept)
    before = _charges(stopped, loser)
    with pytest.raises(InvalidInput, match=r"model\.encoder=scratch as .* \(SHA-256 0{12}\), got"):
        _resume(stopped, loser)
    assert _charges(stopped, loser) == before
    assert stopped.records()[1].status == "stopped"


def test_a_trial_is_not_continued_from_a_damaged_checkpoint(stopped):
    loser = stopped.plan().trials[1].id
    checkpoint.save(stopped.trial_folder(loser), checkpoint.Checkpoint(tensors={}, state={}))
    (stopped.trial_folder(loser) / "checkpoint" / "state.json").write_text("{")
    with pytest.raises(InvalidData, match=r"checkpoint/state\.json"):
        _resume(stopped, loser)
    assert stopped.records()[1].status == "stopped"


def test_a_resume_goes_on_beside_a_trial_whose_checkpoint_is_damaged(stopped):
    _, loser, last = (trial.id for trial in stopped.plan().trials)
    # As if they had been interrupted.
    rewrite_sweep(stopped, "ended", lambda e: None if e["trial"] in (loser, last) else e)
    checkpoint.save(stopped.trial_folder(loser), checkpoint.Checkpoint(tensors={}, state={}))
    (stopped.trial_folder(loser) / "checkpoint" / "state.json").write_text("{")
    before = _charges(stopped, loser)
    _resume(stopped)
    assert [record.status for record in stopped.records()] == ["done", "failed", "done"]
    assert "or remove it to restart the trial" in str(stopped.records()[1].reason)
    assert _charges(stopped, loser) == before

"""A trial that was interrupted goes on from its checkpoint, or fails and the others go
on.
"""

import shutil

import pytest

from sweep.runtime import runner
from sweep.runtime.driver import Driver
from tests.sweep.logs import rewrite_sweep
from tests.sweep.sweeps import TOY, ledger_of, settings_in, statuses
from tests.sweep.untracked import leave_out_mlflow, run_untracked
from trainables.system import checkpoint


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """A sweep whose last two trials of three were interrupted before their results."""
    leave_out_mlflow(monkeypatch)
    folder = run_untracked(tmp_path)
    _, second, last = (trial.id for trial in folder.plan().trials)
    rewrite_sweep(
        folder, "ended", lambda e: None if e["trial"] in (second, last) else e
    )
    return folder, second


def _resumed(folder, trial_id):
    """The statuses after a resume, and why the trial failed, for which nothing was
    charged.
    """
    ledger = ledger_of(folder)
    before = [e for e in ledger.of_sweep(folder.ledger_name) if e.trial == trial_id]
    # The last trial is trained again as a whole, as who removes its folder wants.
    shutil.rmtree(folder.trial_folder(folder.plan().trials[2].id))
    runner.resume(folder, settings_in(folder.path.parents[1]), function=TOY)
    assert [
        e for e in ledger.of_sweep(folder.ledger_name) if e.trial == trial_id
    ] == before
    assert statuses(folder) == ["done", "failed", "done"]
    return str(folder.records()[1].reason)


def test_a_checkpoint_that_is_lost_after_the_trial_began_fails_it(
    interrupted, monkeypatch
):
    """Begun anew it would train its first epoch, which was paid for only once."""
    folder, second = interrupted
    place = folder.trial_folder(second)
    checkpoint.save(place, checkpoint.Checkpoint(tensors={}, state={}))
    before = (place / "trained.txt").read_text()
    answer = Driver.__call__

    def lose_it(self, event):
        verdict = answer(self, event)
        if event.kind == "started":
            checkpoint.remove(place)
        return verdict

    monkeypatch.setattr(Driver, "__call__", lose_it)
    reason = _resumed(folder, second)
    assert "expected the checkpoint of epoch 3 to continue from, got none" in reason
    assert (place / "trained.txt").read_text() == before


def test_a_trial_is_not_continued_with_another_encoder(interrupted):
    folder, second = interrupted
    kept = checkpoint.Checkpoint(tensors={}, state={"encoder_digest": "0" * 64})
    checkpoint.save(folder.trial_folder(second), kept)
    reason = _resumed(folder, second)
    assert "expected model.encoder=scratch as" in reason
    assert "(SHA-256 000000000000), got" in reason

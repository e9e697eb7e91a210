"""A sweep that an earlier version wrote, interrupted in its third trial: it is shown and goes on.

`earlier_sweep/` is what version 0.1.0 wrote at the commit in its `sweep.json`, when the fields of
every model and engine stood side by side in a config. Only its folder's place was exchanged.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sweep.cli import run
from sweep.runtime import runner
from sweep.settings import Settings
from sweep.spending.ledger import FILE, Ledger
from sweep.store import sweeps as store
from sweep.store.status import TrialStatus
from tests.sweep.sweeps import TOY, settings_in, write_corpus
from tests.sweep.untracked import without_mlflow
from trainables.system import checkpoint
from trainables.system.checkpoint import Checkpoint

_WRITTEN = Path(__file__).parent / "earlier_sweep"
_IDS = ["72bd28b9fbf8", "a5e9f5b676fc", "8efb64eb487d"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home that holds the sweep, beside its corpus."""
    made = settings_in(tmp_path)
    shutil.copytree(_WRITTEN, made.home)
    for file in (*made.home.rglob("*.json"), *made.home.rglob("*.yaml")):
        file.write_text(file.read_text().replace("@FOLDER@", str(tmp_path)))
    for file in made.home.rglob("checkpoint.json"):  # of the toy trial of that time alone
        state = json.loads(file.read_text())
        checkpoint.save(file.parent, Checkpoint(tensors={}, state=state))
        file.unlink()
    for file in made.home.rglob("*"):
        file.chmod(0o700 if file.is_dir() else 0o600)  # as it was written: for its owner alone
    write_corpus(tmp_path)
    return made


def test_it_is_read_with_the_ids_it_was_planned_with(settings: Settings) -> None:
    folder = store.open_sweep(settings.home, "toy")
    records = folder.records()
    assert [record.plan.id for record in records] == _IDS
    assert [record.plan.config.id for record in records] == _IDS
    assert [record.status for record in records] == ["done", "done", "interrupted"]
    assert [record.plan.config.privacy.noise_multiplier for record in records] == [0.0, 0.5, 1.0]
    assert "noise_multiplier" not in records[0].plan.fields["privacy"]
    again = records[2].plan.config.model_copy(update={"training": records[0].plan.config.training})
    assert again.id == _IDS[2], "the same fields, and so the same trial"
    other = records[2].plan.config.training.model_copy(update={"epochs": 4})
    assert records[2].plan.config.model_copy(update={"training": other}).id != _IDS[2]


def test_it_is_shown(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEP_HOME", str(settings.home))
    assert run(["show", "toy", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [trial["id"] for trial in shown["trials"]] == _IDS
    assert [trial["epochs_done"] for trial in shown["trials"]] == [3, 3, 2]


def test_it_resumes_from_its_checkpoint_and_no_entry_is_lost(settings: Settings) -> None:
    before = (settings.home / FILE).read_text()
    spent = len(Ledger(settings.home / FILE).entries())
    folder = store.open_sweep(settings.home, "toy")
    with without_mlflow():
        runner.resume(folder, settings, function=TOY)
    records = folder.records()
    assert [record.status for record in records] == [TrialStatus.DONE] * 3
    assert [record.plan.id for record in records] == _IDS
    trained = (folder.trial_folder(_IDS[2]) / "trained.txt").read_text().splitlines()
    assert [line.split()[0] for line in trained] == ["1", "2", "3"], "only its last epoch was left"
    # The toy's arithmetic knows no noise, so both trials give the same figures.
    assert records[2].metrics["ser"] == records[1].metrics["ser"]
    after = (settings.home / FILE).read_text()
    assert after.startswith(before)
    assert len(after) > len(before)
    assert len(Ledger(settings.home / FILE).entries()) >= spent
    assert {entry.trial for entry in Ledger(settings.home / FILE).entries()} == set(_IDS)

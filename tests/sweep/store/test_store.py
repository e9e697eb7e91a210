"""Sweeps on disk: private, whole or absent, and readable after any crash."""

from __future__ import annotations

import fcntl
import math
import multiprocessing
import os
import signal
import stat
import threading
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from search_spaces.space import rename
from sweep.planning import plan as planning
from sweep.planning.accounting import accounting
from sweep.store import sweep_folder
from sweep.store import sweeps as store
from sweep.store.files import append_line, dump, read_json, read_lines, write_json, write_text
from sweep.store.sweeps import SweepFolder
from tests.sweep.sweeps import settings_in, space_in
from trainables.errors import InvalidData, InvalidInput
from trainables.result import EpochReport, TrialResult
from trainables.system import locks


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    settings = settings_in(tmp_path)
    space = space_in(tmp_path)
    plan = planning.make(space, account=accounting(settings))
    return store.create(settings.home, space, plan, about={"command": ["test"]})


def report(epochs_done: int, **metrics: float) -> EpochReport:
    return EpochReport(epochs_done=epochs_done, seconds=0.5, metrics=metrics)


def test_what_was_created_is_read_back(folder: SweepFolder, tmp_path: Path) -> None:
    again = store.open_sweep(folder.path.parent, "toy")
    assert again.space() == space_in(tmp_path)
    assert [trial.variant for trial in again.plan().trials] == ["sgd", "edp", "edp"]
    assert again.about()["command"] == ["test"]
    assert store.names(folder.path.parent) == ["toy"]


def test_everything_is_its_owners_alone(folder: SweepFolder) -> None:
    folder.start_trial(folder.plan().trials[0])
    for path in [folder.path.parent, folder.path, *folder.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_name_is_given_once(folder: SweepFolder) -> None:
    with pytest.raises(InvalidInput, match="a sweep named toy exists"):
        store.create(folder.path.parent, folder.space(), folder.plan(), about={})
    assert [path.name for path in folder.path.parent.iterdir() if path.name != "cache"] == ["toy"]


@pytest.mark.parametrize("name", ["../toy", "toy/../toy", "/etc", "", "Toy", ".toy", "cache"])
def test_a_name_never_leaves_the_home(folder: SweepFolder, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^name: "):
        store.open_sweep(folder.path.parent, name)


@pytest.mark.parametrize(
    "name", ["ledger.jsonl", "ledger.records", "ledger.key", "mlflow.db", "mlartifacts"]
)
def test_the_names_of_the_homes_own_files_are_no_sweeps(folder: SweepFolder, name: str) -> None:
    """A sweep of such a name would be deleted with the record hashes, say, in it."""
    home, space = folder.path.parent, rename(folder.space(), name)
    with pytest.raises(InvalidInput, match=r"^name: expected a name other than the home's own"):
        store.create(home, space, folder.plan(), about={})
    (home / name).mkdir()
    (home / name / "sweep.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"^name: expected a name other than the home's own"):
        store.open_sweep(home, name)


def test_an_unknown_name_says_which_there_are(folder: SweepFolder) -> None:
    with pytest.raises(InvalidInput, match=r"no sweep named other in .*; there are: toy"):
        store.open_sweep(folder.path.parent, "other")


def test_a_trials_status_is_what_its_files_say(folder: SweepFolder) -> None:
    trial = folder.plan().trials[1]

    def status(*, running: bool = False) -> str:
        found = folder.record(trial, running=running).status
        assert folder.status(trial.id, runs=True, running=running) is found
        counted = Counter(record.status for record in folder.records(running=False))
        assert folder.statuses() == counted
        return found

    assert status() == "planned"
    folder.start_trial(trial)
    assert (status(), status(running=True)) == ("interrupted", "running")
    folder.fail_trial(trial.id, when=1.0, reason="broke")
    assert status() == "failed"
    folder.start_trial(trial)  # tried again
    assert status(running=True) == "running"
    result = TrialResult(
        trial_id=trial.id,
        epochs_done=2,
        stopped_early=True,
        metrics={"epsilon": math.inf, "ser": 0.5, "epsilon_paper": None},
        privacy={},
    )
    folder.finish_trial(result, when=2.0, reason="enough")
    record = folder.record(trial, running=False)
    assert (record.status, record.reason, record.epochs_done) == ("stopped", "enough", 2)
    assert record.metrics == {"epsilon": math.inf, "ser": 0.5, "epsilon_paper": None}
    # A scheduler's stop after the last epoch has stopped nothing.
    folder.finish_trial(replace(result, stopped_early=False), when=2.0, reason="enough")
    record = folder.record(trial, running=False)
    assert (record.status, record.reason) == ("done", None)


def test_an_epoch_that_is_reported_again_is_written_once(folder: SweepFolder) -> None:
    trial_id = folder.plan().trials[1].id
    folder.start_folder(trial_id)
    assert folder.add_epoch(trial_id, report(1, epsilon=math.inf), when=1.0)
    assert folder.add_epoch(trial_id, report(2), when=2.0)
    assert not folder.add_epoch(trial_id, report(2), when=3.0)
    assert [(row["epochs_done"], row["time"]) for row in folder.epochs(trial_id)] == [
        (1, 1.0),
        (2, 2.0),
    ]


def test_epochs_after_a_restored_older_checkpoint_replace_the_earlier_ones(
    folder: SweepFolder,
) -> None:
    trial_id = folder.plan().trials[1].id
    folder.start_folder(trial_id)
    for number, when in ((1, 1.0), (2, 2.0), (3, 3.0), (2, 4.0)):
        was_trained = folder.add_epoch(trial_id, report(number), when=when)
        assert was_trained == (when < 4), "a resumed trial reports its checkpoint's epoch again"
    assert [(row["epochs_done"], row["time"]) for row in folder.epochs(trial_id)] == [
        (1, 1.0),
        (2, 4.0),
    ]


def test_a_line_cut_by_a_crash_is_left_out_and_then_replaced(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_line(path, {"n": 1})
    with path.open("ab") as file:
        file.write(b'{"n": 2, "cut')
    assert read_lines(path) == [{"n": 1}]
    append_line(path, {"n": 2})
    assert read_lines(path) == [{"n": 1}, {"n": 2}]
    path.write_bytes(b"{bad\n" + path.read_bytes())
    with pytest.raises(InvalidData, match="line 1"):
        read_lines(path)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"x": math.inf})
    assert read_json(path) == {"x": "inf"}
    with pytest.raises(ValueError, match="surrogates"):
        write_text(path, "half \ud800")  # cannot be encoded: fails in the middle of writing
    assert read_json(path) == {"x": "inf"}
    assert dump({"a": [math.nan, -math.inf]}) == '{"a": [null, "-inf"]}'


def _hold(path: Path, ready: Connection) -> None:
    with SweepFolder(path).hold_lock():
        ready.send("locked")
        signal.pause()


def test_the_lock_is_exclusive_and_falls_with_its_process(folder: SweepFolder) -> None:
    assert not folder.is_running
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(folder.path, theirs))
    process.start()
    assert mine.recv() == "locked"
    assert folder.is_running
    with pytest.raises(InvalidInput, match="toy is running already"), folder.hold_lock():
        pass
    with pytest.raises(InvalidInput, match="is running"):
        folder.delete()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not folder.is_running
    with folder.hold_lock():
        assert folder.is_running
    folder.delete()
    assert store.names(folder.path.parent) == []
    for end in (mine, theirs):
        end.close()
    process.close()


def test_checking_the_lock_does_not_block_a_sweep(
    folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sweep list` at the instant of a `sweep resume`: the resume waits, and is not refused."""
    monkeypatch.setattr(sweep_folder, "_PATIENCE_SECONDS", 60.0)  # on a busy machine too
    (folder.path / "lock").touch()
    with (folder.path / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        done_looking = threading.Timer(0.3, fcntl.flock, [looking, fcntl.LOCK_UN])
        done_looking.start()
        with folder.hold_lock():
            assert SweepFolder(folder.path).is_running
        done_looking.join()
    assert not folder.is_running


def test_a_second_look_at_the_lock_is_quick(
    folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the wait that it is allowed, which a busy machine does not stretch."""
    waits, alone = list[float](), locks.alone

    def patient(path: Path, *, patience: float = -1) -> AbstractContextManager[None]:
        waits.append(patience)
        return alone(path, patience=patience)

    monkeypatch.setattr(locks, "alone", patient)
    with (
        folder.hold_lock(),
        pytest.raises(InvalidInput, match="is running"),
        SweepFolder(folder.path).hold_lock(),
    ):
        pass
    assert len(waits) == 2
    assert all(0 < wait < 1 for wait in waits)


def test_a_running_sweep_keeps_its_plan_and_its_folder(folder: SweepFolder) -> None:
    other = SweepFolder(folder.path)
    plan = folder.plan()
    with folder.hold_lock():
        with pytest.raises(InvalidInput, match="running"):
            other.replace_plan(other.space(), replace(plan, trials=()))
        with pytest.raises(InvalidInput, match="running"):
            other.delete()
        folder.replace_plan(folder.space(), replace(plan, trials=plan.trials[:2]))
    assert len(folder.plan().trials) == 2, "who holds the lock may"
    other.replace_plan(other.space(), plan)
    assert len(folder.plan().trials) == 3


def test_a_choice_is_added_to_the_plan_and_leaves_the_rest_unwritten(folder: SweepFolder) -> None:
    plan = folder.plan()
    before = (folder.path / "plan.json").read_bytes()
    chosen = [replace(plan.trials[1], id=f"chosen{n}") for n in range(3)]
    folder.add_choice(chosen[:2])
    folder.add_choice(chosen[2:])
    assert (folder.path / "plan.json").read_bytes() == before
    ids = [trial.id for trial in (*plan.trials, *chosen)]
    assert [trial.id for trial in SweepFolder(folder.path).plan().trials] == ids
    assert folder.statuses() == Counter(record.status for record in folder.records())
    lines = (folder.path / "chosen.jsonl").read_bytes()
    folder.replace_plan(folder.space(), folder.plan())
    assert not (folder.path / "chosen.jsonl").exists()
    (folder.path / "chosen.jsonl").write_bytes(lines)  # a crash between the two writes
    assert [trial.id for trial in folder.plan().trials] == ids
    assert folder.statuses().total() == len(ids)
    (folder.path / "chosen.jsonl").write_text("{}\n")
    with pytest.raises(InvalidData, match=r"expected trials in every line of .*chosen\.jsonl"):
        folder.plan()


def test_a_run_that_comes_between_the_look_and_the_deletion_is_kept(
    folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SweepFolder, "require_at_rest", lambda self: None)  # it was at rest
    with folder.hold_lock(), pytest.raises(InvalidInput, match="running"):
        SweepFolder(folder.path).delete()
    assert (folder.path / "plan.json").exists()


def test_a_deleted_sweep_cannot_be_locked_by_an_earlier_handle(folder: SweepFolder) -> None:
    other = SweepFolder(folder.path)
    with folder.hold_lock():
        pass
    folder.delete()
    assert [path.name for path in folder.path.parent.iterdir() if path.name != "cache"] == []
    with pytest.raises(InvalidInput, match="no sweep named toy: it was deleted"), other.hold_lock():
        pass


def test_a_request_to_stop_does_not_outlive_the_run_it_was_for(folder: SweepFolder) -> None:
    folder.request_stop()
    assert folder.is_stop_requested
    with folder.hold_lock():
        assert not folder.is_stop_requested


def test_changes_of_a_space_are_listed(tmp_path: Path) -> None:
    old = space_in(tmp_path, budget={"epsilon": 5})
    new = space_in(tmp_path, budget={"epsilon": 8}, repeats=2)
    assert store.changes(old, new) == [
        "budget.epsilon: 5.0 became 8.0",
        "repeats: 'nothing' became [0, 1]",
    ]
    assert store.changes(old, old) == []


def test_a_space_that_is_cut_at_any_line_is_no_smaller_one(folder: SweepFolder) -> None:
    """Without its last fields a YAML file is a valid space, which may have no budget."""
    path = folder.path / "space.yaml"
    whole = path.read_text()
    space = folder.space()
    lines = whole.splitlines(keepends=True)
    for end in range(len(lines)):
        path.write_text("".join(lines[:end]))
        with pytest.raises(InvalidData, match="as it was written, got a truncated or edited file"):
            folder.space()
    path.write_text(whole.replace("epochs: 3", "epochs: 4"))
    with pytest.raises(InvalidData, match="truncated or edited"):
        folder.space()
    folder.replace_plan(space, folder.plan())
    assert path.read_text() == whole
    assert folder.space() == space

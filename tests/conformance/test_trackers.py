"""What every tracker of the shelf keeps to. A new file there inherits these tests.

`tests/sweep/tracking/readers.py` reads back what each has written.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sweep.runtime import runner
from sweep.settings import Settings
from sweep.store.sweeps import SweepFolder
from sweep.tracking.chosen import SHELF, Behind, open_trackers, with_traces
from sweep.tracking.text import metric_key
from tests.conformance.shelves import DropIn
from tests.sweep.sweeps import TOY, run_toy, settings_in
from tests.sweep.tracking.readers import READERS, Seen
from tests.sweep.untracked import run_untracked
from trainables import catalogue
from trainables.errors import InvalidInput

# MLflow's own imports and SQLAlchemy's unclosed pool.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NAMES = catalogue.names(SHELF)
# MLflow makes its tables for seconds; the tests of sweeps are on it, too.
EACH = [pytest.param(n, marks=pytest.mark.slow) if n == "mlflow" else n for n in NAMES]
# Of an epoch and of the end: one that may be published, one that may not.
ADDED = {"validation_frame_accuracy": 0.25, "train_loss": 3.5}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    """Three trials of three epochs, tracked nowhere."""
    folder = run_untracked(tmp_path_factory.mktemp("finished"))
    for path in folder.path.glob("trials/*/epochs.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["metrics"] |= ADDED
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def sweep(finished: SweepFolder, tmp_path: Path) -> SweepFolder:
    """A copy of it in a home of its own."""
    return SweepFolder(shutil.copytree(finished.path, tmp_path / "home" / finished.name))


def settings_of(name: str, folder: Path) -> Settings:
    if name in NAMES and importlib.util.find_spec(name) is None and name != "tensorboard":
        pytest.skip(f"{name} is not installed")
    return replace(settings_in(folder), tracking=(name,))


def until(sweep: SweepFolder, epochs: int, target: Path) -> SweepFolder:
    """The sweep as it was after so many epochs of each trial, in `target`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(sweep.path, target)
    for path in target.glob("trials/*/epochs.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:epochs]))
        (path.parent / "result.json").unlink()
    return SweepFolder(target)


def check(seen: dict[str, Seen], sweep: SweepFolder, *, audience: str) -> None:
    """What was seen is what the disk has and the audience may have."""
    records = {record.plan.id: record for record in sweep.records(running=False)}
    assert set(seen) == set(records)
    for trial, record in records.items():
        for row in sweep.epochs(trial):
            wanted = {
                metric_key(name): value
                for name, value in row["metrics"].items()
                if value is not None and math.isfinite(float(value))
            }
            wanted = {n: v for n, v in wanted.items() if audience == "curator" or "/" not in n}
            found = seen[trial].epochs[row["epochs_done"]]
            assert {n: found.get(n) for n in wanted} == pytest.approx(wanted)
        assert seen[trial].final["ser"] == pytest.approx(record.metrics["ser"])
        assert seen[trial].status == record.status.value
        names = {name for figures in seen[trial].epochs.values() for name in figures}
        names |= set(seen[trial].final)
        is_there = any("train_loss" in name for name in names)
        assert is_there == (audience == "curator")
        assert "train_loss" not in names
        assert "threads" not in names, "what is not registered is the curator's"


def check_tracker(name: str, sweep: SweepFolder, folder: Path) -> None:
    """It has all, however often and in however many parts it is delivered."""
    settings = settings_of(name, folder)
    audience = catalogue.entry(SHELF, name).AUDIENCE
    full = SweepFolder(shutil.copytree(sweep.path, folder / "full"))
    tracker = open_trackers(settings)
    for epochs in (1, 1, 2):
        tracker.deliver(until(full, epochs, sweep.path), running=True)
    tracker.close()
    tracker = open_trackers(settings)  # another process goes on
    shutil.rmtree(sweep.path)
    shutil.copytree(full.path, sweep.path)
    ids = [trial.id for trial in sweep.plan().trials]
    tracker.deliver(sweep, [*ids, "unknown"], running=True)
    tracker.deliver(sweep, running=False)
    tracker.close()
    check(READERS[name](settings, sweep.name), sweep, audience=audience)
    again = open_trackers(settings)
    again.deliver(sweep, running=False)
    again.close()
    check(READERS[name](settings, sweep.name), sweep, audience=audience)
    again.delete(sweep)
    assert READERS[name](settings, sweep.name) == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_contract(name: str) -> None:
    module = catalogue.entry(SHELF, name)
    assert module.__doc__
    assert module.AUDIENCE in ("curator", "public")
    assert list(inspect.signature(module.check).parameters) == ["settings"]
    assert list(inspect.signature(module.open_tracker).parameters) == ["settings", "away"]
    assert name in READERS, "the suite reads back what a tracker has written"


@pytest.mark.parametrize("name", EACH)
def test_it_has_what_the_disk_has_once(name: str, sweep: SweepFolder, tmp_path: Path) -> None:
    check_tracker(name, sweep, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_it_follows_a_sweep_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(name, tmp_path)
    monkeypatch.setattr("tests.sweep.sweeps.settings_in", lambda folder: settings)
    run = run_toy(tmp_path)
    assert run.tracking_problem is None
    seen = READERS[name](settings, "toy")
    assert {each.status for each in seen.values()} == {"done"}
    assert all({1, 2, 3} <= set(each.epochs) for each in seen.values())
    resumed = runner.resume(run.folder, replace(settings, tracking=()), function=TOY)
    assert resumed.tracking_problem is None
    assert READERS[name](settings, "toy") == seen


def test_a_resumed_sweep_keeps_the_trackers_of_its_start_unless_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(settings_in(tmp_path), tracking=())
    monkeypatch.setattr("tests.sweep.sweeps.settings_in", lambda folder: settings)
    run = run_toy(tmp_path)
    unnamed = replace(settings, tracking=("tensorboard",), names_trackers=False)
    runner.resume(run.folder, unnamed, function=TOY)
    assert not (settings.home / "tensorboard").exists(), "the sweep was started without any"
    runner.resume(run.folder, replace(unnamed, names_trackers=True), function=TOY)
    assert len(READERS["tensorboard"](settings, "toy")) == 3


def test_one_is_the_default() -> None:
    assert (catalogue.marked_entry(SHELF, "DEFAULT"),) == Settings.tracking


def test_what_is_no_tracker_is_refused_by_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="one of mlflow, tensorboard, wandb, got 'paper'"):
        open_trackers(replace(settings_in(tmp_path), tracking=("paper",)))


# ---- a new file

LINES = '''"""A line of JSON for each delivery of a trial."""

import json

from sweep.tracking.follower import Follower

AUDIENCE = "public"


def check(settings):
    pass


def open_tracker(settings, *, away=None):
    return Follower(Lines(), root=settings.home / "lines", audience=AUDIENCE)


class Lines:
    def write(self, trial, *, place):
        epochs = {each.step: dict(each.figures) for each in trial.epochs}
        known = {"status": trial.status, "epochs": epochs, "final": dict(trial.final)}
        (place / f"{trial.trial}.txt").write_text(json.dumps(known))

    def close(self):
        pass
'''


def lines(settings: Settings, sweep: str) -> dict[str, Seen]:
    found = {}
    for path in (settings.home / "lines" / sweep).glob("*.txt"):
        known = json.loads(path.read_text())
        epochs = {int(step): figures for step, figures in known["epochs"].items()}
        found[path.stem] = Seen(known["status"], epochs, known["final"])
    return found


def test_a_new_file_passes_this_suite(
    drop_in: DropIn, sweep: SweepFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_in(SHELF, "lines", LINES)
    monkeypatch.setitem(READERS, "lines", lines)
    check_tracker("lines", sweep, tmp_path)


BROKEN = '''"""Takes nothing."""

AUDIENCE = "public"


def check(settings):
    pass


def open_tracker(settings, *, away=None):
    return Broken()


class Broken:
    away = (OSError,)

    def deliver(self, folder, trial_ids=None, *, running):
        raise KeyError("no such board\\nand more")

    def delete(self, folder):
        raise ValueError

    def close(self):
        raise RuntimeError
'''


def test_a_tracker_that_fails_costs_a_line_and_no_trial_nor_another_tracker(
    drop_in: DropIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_in(SHELF, "broken", BROKEN)
    settings = replace(settings_in(tmp_path), tracking=("broken", "tensorboard"))
    monkeypatch.setattr("tests.sweep.sweeps.settings_in", lambda folder: settings)
    run = run_toy(tmp_path)
    assert run.tracking_problem == "broken: 'no such board\\nand more'"
    assert [record.status for record in run.folder.records()] == ["done"] * 3
    assert len(READERS["tensorboard"](settings, "toy")) == 3
    with pytest.raises(Behind, match="broken: ValueError"):
        open_trackers(settings).delete(run.folder)


def test_a_sweep_keeps_its_trackers(sweep: SweepFolder, tmp_path: Path) -> None:
    settings = replace(settings_in(tmp_path), tracking=("tensorboard",))
    open_trackers(settings).deliver(sweep, running=False)
    later = with_traces(replace(settings, tracking=("mlflow",)), sweep.name)
    assert later.tracking == ("mlflow", "tensorboard")
    assert with_traces(settings, "another").tracking == ("tensorboard",)


def test_a_sweep_that_is_resumed_without_tracking_opens_no_earlier_tracker(
    sweep: SweepFolder, tmp_path: Path, drop_in: DropIn
) -> None:
    drop_in(SHELF, "broken", BROKEN)
    settings = replace(settings_in(tmp_path), tracking=("tensorboard",))
    (settings.home / "broken" / sweep.name).mkdir(parents=True)
    problem = runner.resume(sweep, settings, function=TOY).tracking_problem
    assert problem is not None
    assert problem.startswith("broken: ")
    silent = replace(settings, tracking=())
    assert runner.resume(sweep, silent, function=TOY).tracking_problem is None

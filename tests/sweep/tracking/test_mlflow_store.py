"""MLflow has what the disk has, once, however often and in however many parts it is delivered."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from sweep.runtime import runner
from sweep.settings import Settings, from_environment
from sweep.store.sweeps import SweepFolder
from sweep.tracking.connection import for_sweep, may_pass
from sweep.tracking.mlflow_client import EXPERIMENT, Batch, Store
from sweep.tracking.mlflow_store import Tracker
from sweep.tracking.text import accepted, metric_key
from tests.sweep.sweeps import TOY, run_toy, settings_in
from tests.sweep.untracked import run_untracked
from trainables.errors import InvalidInput, StorageFailed

# MLflow's own imports and SQLAlchemy's unclosed pool.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
# Of an epoch and of the end: one that may be published, one that may not.
ADDED = {"validation_frame_accuracy": 0.25, "train_loss": 3.5}


@dataclass
class Seen:
    """A trial as MLflow has it; `epochs` has every figure by step, each once."""

    status: str
    run: str
    epochs: dict[int, dict[str, float]] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)


def _plain_key(key: str) -> str:
    """A metric's key without the group that MLflow's charts are sorted by.

    >>> _plain_key("validation/ser"), _plain_key("test/ser"), _plain_key("curator_only/leakage")
    ('validation_ser', 'ser', 'curator_only/leakage')
    """
    group, _, name = key.rpartition("/")
    if group in ("best", "validation"):
        return f"{group}_{name}"
    return name if group in ("test", "privacy", "time", "sweep") else key


def seen_in(settings: Settings, sweep: str) -> dict[str, Seen]:
    """The trials of a sweep by their ids."""
    client = MlflowClient(tracking_uri=settings.tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    found = {}
    for run in client.search_runs([experiment.experiment_id]):
        if run.data.tags.get("sweep") != sweep or not run.data.tags.get("trial"):
            continue
        final = {_plain_key(name): value for name, value in run.data.metrics.items()}
        seen = Seen(run.data.tags["status"], run.info.status, final=final)
        found[run.data.tags["trial"]] = seen
        for name in run.data.metrics:
            for metric in client.get_metric_history(run.info.run_id, name):
                figures = seen.epochs.setdefault(metric.step, {})
                assert _plain_key(name) not in figures, f"{name} twice at {metric.step}"
                figures[_plain_key(name)] = metric.value
    return found


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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store in a home. MLflow makes its tables for seconds, so tests copy it."""
    place = tmp_path_factory.mktemp("made")
    Store(settings_in(place))
    return place


@pytest.fixture
def settings(made: Path, tmp_path: Path) -> Settings:
    """A home with the store, whose experiment has its artifacts there."""
    found = settings_in(tmp_path)
    found.home.mkdir(exist_ok=True)
    for file in settings_in(made).home.glob("mlflow.db*"):
        shutil.copy(file, found.home)
    client = MlflowClient(found.tracking_uri)
    old = client.get_experiment_by_name(EXPERIMENT)
    assert old is not None
    client.rename_experiment(old.experiment_id, "of another home")
    return found


def until(sweep: SweepFolder, epochs: int, target: Path) -> SweepFolder:
    """The sweep as it was after so many epochs of each trial, in `target`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(sweep.path, target)
    for path in target.glob("trials/*/epochs.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:epochs]))
        (path.parent / "result.json").unlink()
    return SweepFolder(target)


def check(seen: dict[str, Seen], sweep: SweepFolder) -> None:
    """What was seen is what the disk has; what no epsilon covers is marked."""
    records = {record.plan.id: record for record in sweep.records(running=False)}
    assert set(seen) == set(records)
    for trial, record in records.items():
        for row in sweep.epochs(trial):
            wanted = {
                metric_key(name): value
                for name, value in row["metrics"].items()
                if value is not None and math.isfinite(float(value))
            }
            found = seen[trial].epochs[row["epochs_done"]]
            assert {n: found.get(n) for n in wanted} == pytest.approx(wanted)
        assert seen[trial].final["ser"] == pytest.approx(record.metrics["ser"])
        assert (seen[trial].status, seen[trial].run) == (record.status.value, "FINISHED")
        names = {*seen[trial].final, *(n for each in seen[trial].epochs.values() for n in each)}
        assert "curator_only/train_loss" in names
        assert not {"train_loss", "threads"} & names, "what is not registered is the curator's"


def test_it_has_what_the_disk_has_once(
    sweep: SweepFolder, settings: Settings, tmp_path: Path
) -> None:
    full = SweepFolder(shutil.copytree(sweep.path, tmp_path / "full"))
    tracker = Tracker(settings)
    for epochs in (1, 1, 2):
        tracker.deliver(until(full, epochs, sweep.path), running=True)
    tracker = Tracker(settings)  # another process goes on
    shutil.rmtree(sweep.path)
    shutil.copytree(full.path, sweep.path)
    ids = [trial.id for trial in sweep.plan().trials]
    tracker.deliver(sweep, [*ids, "unknown"], running=True)
    tracker.deliver(sweep, running=False)
    check(seen_in(settings, sweep.name), sweep)
    again = Tracker(settings)
    again.deliver(sweep, running=False)
    check(seen_in(settings, sweep.name), sweep)
    again.delete(sweep)
    assert seen_in(settings, sweep.name) == {}


def test_what_mlflow_refuses_of_one_trial_holds_up_no_other(
    sweep: SweepFolder, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, log = Tracker(settings), Store.log
    (refused, *others) = [trial.id for trial in sweep.plan().trials]

    def picky(self: Store, run_id: str, batch: Batch) -> None:
        if run_id == self.find(sweep.about()["id"], refused):
            batch.params = {**batch.params, "": 1}
            monkeypatch.setattr("sweep.tracking.mlflow_client.accepted", lambda name: name)
        log(self, run_id, batch)
        monkeypatch.setattr("sweep.tracking.mlflow_client.accepted", accepted)

    monkeypatch.setattr(Store, "log", picky)
    with pytest.raises(MlflowException) as problem:
        tracker.deliver(sweep, running=False)
    assert not may_pass(problem.value)
    found = MlflowClient(settings.tracking_uri).search_runs([tracker.experiment_id])
    assert {run.info.status for run in found} == {"FINISHED"}, "none is left running"
    assert {run.data.tags["trial"] for run in found} == {"", refused, *others}


def test_any_name_and_any_length_is_accepted(settings: Settings) -> None:
    store = Store(settings)
    names = [
        *("a@b#c", "a#b@c", "kéy", "x y", "", ".", "..", "../x", "/x", "x//y", "x/./y", "x/", ":"),
        *("a\0b", "é" * 300, "/" * 300, "..x", " ", "\n", "漢字", "model.options.a@b#c", "e\ud800"),
    ]
    run = store.create("s" * 32, "t", name="n" * 999, started=0.0, tags={"note": "x" * 99_999})
    values = {name: f"{name}\0\ud800" + "é" * 9_999 for name in names}
    batch = Batch(params=values, tags=dict(values))
    batch.add(dict.fromkeys(names, 1.0), step=0, when=0.0)
    store.log(run, batch)
    data = store.client.get_run(run).data
    assert set(data.params) == {accepted(name) for name in names}
    assert len(data.params) == len(data.metrics) == len(names), "two names remain two"
    assert data.params["kéy"].startswith("kéy")


# ---- stores that cannot be used


def test_a_deleted_experiment_is_named_with_the_command_that_restores_it(
    settings: Settings,
) -> None:
    store = Store(settings)
    store.client.delete_experiment(store.experiment_id)
    with pytest.raises(InvalidInput) as problem:
        Store(settings)
    assert not may_pass(problem.value)
    assert f"{EXPERIMENT!r} (id {store.experiment_id}) in {settings.tracking_uri}" in str(
        problem.value
    )
    assert f"mlflow experiments restore --experiment-id {store.experiment_id}`" in str(
        problem.value
    )
    store.client.restore_experiment(store.experiment_id)
    Store(settings)


def test_a_moved_home_writes_nothing_to_the_old_one(settings: Settings, tmp_path: Path) -> None:
    before = Store(settings)
    moved = settings_in(tmp_path / "moved")
    moved.home.parent.mkdir()
    settings.home.rename(moved.home)
    with pytest.raises(InvalidInput) as problem:
        Store(moved)
    assert not settings.home.exists()
    for path in (settings.artifacts_dir, moved.artifacts_dir):
        assert str(path) in str(problem.value)
    words = str(problem.value)
    assert f"ln -s '{moved.home}' '{settings.home}'" in words
    settings.home.symlink_to(moved.home)
    assert Store(moved).experiment_id == before.experiment_id
    settings.home.unlink()
    assert f"rename --experiment-id {before.experiment_id} --new-name sweeps-before" in words
    client = MlflowClient(moved.tracking_uri)
    client.rename_experiment(before.experiment_id, "sweeps-before")
    assert Store(moved).experiment_id != before.experiment_id


def test_a_copied_home_is_refused_without_a_link_over_the_other(
    settings: Settings, tmp_path: Path
) -> None:
    Store(settings)
    copied = settings_in(tmp_path / "copied")
    shutil.copytree(settings.home, copied.home)
    with pytest.raises(InvalidInput, match="keeps its artifacts in") as problem:
        Store(copied)
    assert "ln -s" not in str(problem.value)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("postgresql+pg8000://ann:s3cret@127.0.0.1/x", "with an installed driver.*No module named"),
        ("postgresql+none://ann:s3cret@127.0.0.1/x", "does not answer"),
        ("databricks", "with credentials"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_line(
    uri: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_CONFIG_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InvalidInput, match=words) as problem:
        Store(replace(settings_in(tmp_path), tracking_uri=uri))
    assert uri.partition("ann")[0] in str(problem.value)
    assert "s3cret" not in str(problem.value)
    assert "\n" not in str(problem.value)


def test_the_disk_of_the_store_is_named(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere" / "mlflow.db"
    place.mkdir(parents=True)  # SQLite cannot open it
    with pytest.raises(StorageFailed, match=f"the disk of {place.parent} does not answer"):
        Store(replace(settings_in(tmp_path), tracking_uri=f"sqlite:///{place}"))


@pytest.mark.parametrize("name", ["what?now", "50%20a b#ö%"])
def test_the_store_is_in_the_home_whatever_its_name(name: str, tmp_path: Path) -> None:
    """Where the name means something in an address."""
    settings = from_environment({"SWEEP_HOME": str(tmp_path / name)})
    Store(settings)
    Store(settings).create("sweep-id", "trial-id", name="t1", started=0.0, tags={})
    assert (settings.home / "mlflow.db").is_file()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and name not in str(path)]


# ---- whether a sweep is tracked


@pytest.mark.parametrize(
    ("named", "started_with", "expected"),
    [(None, True, True), (None, False, False), ("mlflow", False, True), ("none", True, False)],
)
def test_a_started_sweep_keeps_its_choice_unless_another_is_named(
    named: str | None, started_with: bool, expected: bool, tmp_path: Path
) -> None:
    class Folder(SweepFolder):
        def about(self) -> dict[str, Any]:
            return {"tracking": started_with}

    settings = from_environment({"SWEEP_HOME": str(tmp_path)}, tracking=named)
    assert settings.names_tracking is (named is not None)
    assert for_sweep(settings, Folder(tmp_path)).tracking is expected


def test_another_tracker_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected tracking to be one of mlflow, none, got 'x'"):
        from_environment({"SWEEP_TRACKING": "x"})


def test_a_sweep_without_tracking_makes_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untracked = replace(settings_in(tmp_path), tracking=False)
    monkeypatch.setattr("tests.sweep.sweeps.settings_in", lambda place: untracked)
    run = run_toy(tmp_path)
    assert run.tracking_problem is None
    unnamed = replace(untracked, tracking=True, names_tracking=False)
    assert runner.resume(run.folder, unnamed, function=TOY).tracking_problem is None
    assert not list(unnamed.home.glob("mlflow*"))

import shutil

import pytest
from mlflow import MlflowClient

from sweep.store.sweeps import SweepFolder
from sweep.tracking.mlflow_store import EXPERIMENT, Tracker
from tests.sweep.logs import rewrite_sweep
from tests.sweep.sweeps import settings_in
from tests.sweep.untracked import run_untracked


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Three trials of three epochs, tracked nowhere."""
    return run_untracked(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def sweep(finished, tmp_path):
    return SweepFolder(
        shutil.copytree(finished.path, tmp_path / "home" / finished.name)
    )


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A new store in a home. MLflow makes its tables for seconds, so tests copy it."""
    place = tmp_path_factory.mktemp("made")
    Tracker(settings_in(place))
    return settings_in(place).home


@pytest.fixture
def settings(made, tmp_path):
    """A home with the store, in which the experiment of the copied one has made
    room.
    """
    found = settings_in(tmp_path)
    found.home.mkdir(exist_ok=True)
    for file in made.glob("mlflow.db*"):
        shutil.copy(file, found.home)
    client = MlflowClient(found.tracking_uri)
    old = client.get_experiment_by_name(EXPERIMENT)
    client.rename_experiment(old.experiment_id, "of another home")
    return found


def runs_in(settings):
    """The runs of the store by the trial, "" for the sweep's own."""
    client = MlflowClient(settings.tracking_uri)
    found = client.search_runs(
        [client.get_experiment_by_name(EXPERIMENT).experiment_id]
    )
    runs = {run.data.tags.get("sweep.trial", ""): run for run in found}
    assert len(runs) == len(found), "a trial has one run"
    return runs


def history(settings, run):
    client = MlflowClient(settings.tracking_uri)
    return {
        name: [
            (m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)
        ]
        for name in run.data.metrics
    }


def until(sweep, epochs, target):
    """The sweep as it was after so many epochs of each trial, in `target`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(sweep.path, target)
    found = SweepFolder(target)
    rewrite_sweep(
        found, "epoch", lambda e: e if e["row"]["epochs_done"] <= epochs else None
    )
    rewrite_sweep(found, "ended", lambda e: None)
    return found

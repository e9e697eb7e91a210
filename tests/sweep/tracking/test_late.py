"""A store that an earlier sweep has opened is not waited for."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweep.settings import from_environment
from sweep.store.sweeps import SweepFolder
from sweep.tracking.connection import note_opened, was_opened
from sweep.tracking.late import LateTracker
from sweep.tracking.mlflow_client import Store
from sweep.tracking.trackers import mlflow
from tests.sweep.sweeps import settings_in
from trainables.errors import InvalidInput


def test_only_a_file_that_this_mlflow_has_opened_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path)
    settings.home.mkdir()
    note_opened(settings)
    assert not was_opened(settings), "there is no file yet"
    (settings.home / "mlflow.db").touch()
    assert not was_opened(settings)
    note_opened(settings)
    assert was_opened(settings)
    assert not was_opened(replace(settings, tracking_uri="http://127.0.0.1:9"))
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    assert not was_opened(settings), "another version may have other tables"


@pytest.mark.parametrize("name", ["what?now", "50%20a b#ö%"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_store_is_in_the_home_whatever_its_name(name: str, tmp_path: Path) -> None:
    """Where the name means something in an address."""
    settings = from_environment({"SWEEP_HOME": str(tmp_path / name)})
    store = Store(settings)
    store.create("sweep-id", "trial-id", name="t1", started=0.0, tags={})
    assert (settings.home / "mlflow.db").is_file()
    assert was_opened(settings)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and name not in str(path)]


def test_a_store_that_cannot_be_opened_after_all_is_away(tmp_path: Path) -> None:
    opening: Future[Any] = Future()
    tracker = LateTracker(opening.result)
    opening.set_exception(InvalidInput("tracking store does not answer"))
    with pytest.raises(OSError, match="does not answer"):
        tracker.deliver(SweepFolder(tmp_path), running=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_resume_goes_on_where_the_disk_of_the_store_fails(tmp_path: Path) -> None:
    """It is another one than that of the sweeps, and it is named."""
    place = tmp_path / "elsewhere" / "mlflow.db"
    place.mkdir(parents=True)  # SQLite cannot open it
    said: list[str] = []
    begun = time.monotonic()
    tracker = mlflow.open_tracker(
        replace(settings_in(tmp_path), tracking_uri=f"sqlite:///{place}"), away=said.append
    )
    assert time.monotonic() - begun < 40, "MLflow's own retries take 100 seconds"
    assert len(said) == 1
    assert f"the disk of {place.parent} does not answer" in said[0]
    with pytest.raises(OSError, match="does not answer"):
        tracker.deliver(SweepFolder(tmp_path), running=True)

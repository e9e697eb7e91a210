"""The store holds figures that are for the curator alone, also where a notebook made it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep.tracking.mlflow_client import Store
from tests.sweep.sweeps import settings_in


@pytest.fixture
def _open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_others_can_read_neither_the_store_nor_its_artifacts(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.home.mkdir(mode=0o755)
    store = Store(settings)
    run = store.create("sweep-id", "trial-id", name="t1", started=0.0, tags={})
    made = tmp_path / "epochs.csv"
    made.write_text("mia_auc")
    store.client.log_artifact(run, str(made), "curator_only")
    entries = {path.name: path.stat().st_mode & 0o077 for path in settings.home.iterdir()}
    assert {"mlflow.db", "mlartifacts"} <= entries.keys()
    assert [name for name, others in entries.items() if others] == []
    assert list(settings.home.glob("mlartifacts/*/artifacts/curator_only/epochs.csv"))

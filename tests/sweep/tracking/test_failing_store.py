"""A store that fails says so by its exceptions alone: no traceback of its own on stderr."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from sweep.tracking.mlflow_client import Store
from tests.sweep.sweeps import settings_in


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_failing_database_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_in(tmp_path)
    settings.home.mkdir()
    store = Store(settings)
    connection = sqlite3.connect(settings.home / "mlflow.db")
    connection.execute("DROP TABLE tags")
    connection.close()
    with pytest.raises(MlflowException):
        store.create("sweep-id", "trial-id", name="t1", started=0.0, tags={"engine": "sgd"})
    assert capsys.readouterr().err == ""

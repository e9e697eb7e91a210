"""The tables of a SQLite store of MLflow, which one process at a time makes."""

import time
from contextlib import AbstractContextManager

from sweep.settings import Settings, sqlite_file, sqlite_uri
from trainables.io.files import make_folder
from trainables.system.locks import alone


def alone_with(settings: Settings) -> AbstractContextManager[None]:
    """Hold the lock of a database, which all have who use its file: MLflow fails where
    two processes make its tables or its first experiment.
    """
    file = sqlite_file(settings.tracking_uri)
    folder = settings.home if file is None else file.parent
    make_folder(folder)
    return alone(folder / ".mlflow.lock")


def make(settings: Settings) -> None:
    """Make the file of a SQLite store with its tables where it is missing, whole or not
    at all, and the folder of artifacts. MLflow itself would let everyone read them
    where the umask does. For the holder of the lock.
    """
    from mlflow import MlflowClient

    settings.artifacts_dir.mkdir(mode=0o700, exist_ok=True)
    file = sqlite_file(settings.tracking_uri)
    if file is None or file.exists():
        return
    fresh = file.with_name(f"{file.name}.{time.time_ns()}")
    try:  # an interrupt must not leave half of the tables
        fresh.touch(mode=0o600)
        MlflowClient(sqlite_uri(fresh)).search_experiments(max_results=1)
        fresh.rename(file)
    finally:
        fresh.unlink(missing_ok=True)

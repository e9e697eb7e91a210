"""A toy sweep without MLflow, whose store would take most of a test's time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sweep.runtime import runner
from sweep.store.sweeps import SweepFolder
from tests.sweep.sweeps import run_toy


class NoTracker:
    """Takes every delivery and keeps nothing."""

    def __init__(self, *args: object) -> None:
        """It is of a sweep."""

    def open(self, **kwargs: object) -> None:
        """It answers."""

    def deliver(self, *args: object, **kwargs: object) -> None:
        """It is delivered."""

    def delete(self, *args: object) -> None:
        """There is nothing."""


@contextmanager
def without_mlflow() -> Iterator[None]:
    """Sweeps of the block write to the disk alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "Tracking", NoTracker)
        yield


def run_untracked(folder: Path, **fields: Any) -> SweepFolder:
    """`run_toy` that writes to the disk alone."""
    folder.mkdir(exist_ok=True)
    with without_mlflow():
        return run_toy(folder, **fields).folder

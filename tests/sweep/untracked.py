"""A toy sweep without MLflow, whose store would take most of a test's time."""

from contextlib import contextmanager

import pytest

from sweep.runtime import runner
from tests.sweep.sweeps import run_toy


class NoDelivery:
    """Takes every mark and delivers nothing."""

    def __init__(self, *args):
        """It is of a sweep."""

    def mark(self, trial_id):
        """It is noted."""

    def close(self, **kwargs):
        """It is delivered."""


def leave_out_mlflow(patch):
    """Sweeps write to the disk alone, as long as the patch lasts."""
    patch.setattr(runner, "Delivery", NoDelivery)
    patch.setattr(runner, "open_store", lambda settings: None)


@contextmanager
def without_mlflow():
    """Sweeps of the block write to the disk alone."""
    with pytest.MonkeyPatch.context() as patch:
        leave_out_mlflow(patch)
        yield


def run_untracked(folder, **fields):
    """`run_toy` that writes to the disk alone."""
    folder.mkdir(exist_ok=True)
    with without_mlflow():
        return run_toy(folder, **fields).folder

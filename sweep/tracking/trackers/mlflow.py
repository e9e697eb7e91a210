"""MLflow: a run for each sweep and each trial, in the store of $MLFLOW_TRACKING_URI."""

from __future__ import annotations

from sweep.settings import Settings
from sweep.tracking.facts import Audience
from sweep.tracking.late import LateTracker, StoreAway
from sweep.tracking.protocol import Away, Tracker

DEFAULT = True
AUDIENCE: Audience = "curator"


def check(settings: Settings) -> None:
    """MLflow is always installed; opening the store checks that it answers."""


def open_tracker(settings: Settings, *, away: Away | None = None) -> Tracker:
    """The store, opened.

    Raises: InvalidInput where it does not answer, without `away`; StorageFailed.
    """
    from sweep.tracking import mlflow_store

    if away is None:
        return mlflow_store.Tracker(settings)
    tracker = LateTracker(lambda: mlflow_store.Tracker(settings))
    try:
        tracker.open()
    except StoreAway as problem:
        away(str(problem))
    return tracker

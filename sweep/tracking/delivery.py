"""Sends the results of a sweep to MLflow, whose failures never end the sweep.

MLflow is imported where a store is opened, because that takes seconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sweep.guard import Guard
from sweep.settings import Settings, hide_passwords, sqlite_file, sqlite_uri
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput, StorageFailed

if TYPE_CHECKING:
    from sweep.tracking.mlflow_store import Tracker

_REST = 5.0  # seconds after a failure
_GATHERING = 1.0  # seconds: trials marked within them are delivered together
_REFUSED = (400, 401, 403, 404, 501)  # HTTP statuses of what would be refused again


class StoreAway(InvalidInput):
    """The tracking store does not answer now."""


def may_pass(problem: BaseException) -> bool:
    """Whether the same call may succeed later; False where its arguments were refused."""
    if isinstance(problem, InvalidInput):
        return isinstance(problem, StoreAway)
    status = getattr(problem, "get_http_status_code", None)  # of MLflow's own exceptions
    return status is None or status() not in _REFUSED


def for_sweep(settings: Settings, folder: SweepFolder) -> Settings:
    """The settings; a sweep is tracked as its start decided, unless the user names it."""
    if settings.names_tracking:
        return settings
    return replace(settings, tracking=bool(folder.about().get("tracking", True)))


def has_store(settings: Settings) -> bool:
    """Whether the store may hold anything: False for a SQLite file that does not exist."""
    file = sqlite_file(settings.tracking_uri)
    return file is None or file.exists()


class Tracking:
    """MLflow for the sweep of a name, behind a guard; nothing is opened without `tracking`."""

    def __init__(self, settings: Settings, sweep: str) -> None:
        self._settings = settings
        self._tracker: Tracker | None = None
        usual = (sqlite_uri(settings.home / "mlflow.db"), os.environ.get("MLFLOW_TRACKING_URI"))
        uri = settings.tracking_uri
        option = "" if uri in usual else f" --tracking-uri {hide_passwords(uri)}"
        later = f"the sweep goes on; `sweep resume {sweep}{option}` delivers the rest"
        self.guard = Guard("MLflow", then=lambda p: later if may_pass(p) else "the sweep goes on")

    def open(self, *, must_answer: bool) -> None:
        """Open the store. One that is away is opened later where it need not answer.

        Raises: InvalidInput for a store that cannot be used; StorageFailed.
        """
        if not self._settings.tracking:
            return
        try:
            self._tracker = self._opened()
        except (StoreAway, StorageFailed) as problem:
            if must_answer:
                raise
            with self.guard:
                raise problem

    def deliver(
        self, folder: SweepFolder, trial_ids: Sequence[str] | None = None, *, running: bool
    ) -> str | None:
        """Update runs as `Tracker.deliver`; returns why that failed, or None."""
        if not self._settings.tracking:
            return None
        with self.guard:
            # After a failure the store is opened anew, and what it has is read again.
            tracker, self._tracker = self._tracker or self._opened(), None
            try:
                tracker.deliver(folder, trial_ids, running=running)
            except Exception as problem:
                if may_pass(problem):
                    raise
                # A run that was deleted meanwhile is made anew, a deleted experiment is named.
                tracker = self._opened()
                tracker.deliver(folder, trial_ids, running=running)
            self._tracker = tracker
        return self.guard.problem

    def delete(self, folder: SweepFolder) -> str | None:
        """Delete the sweep's runs; returns why that failed, or None."""
        if not self._settings.tracking:
            return None
        with self.guard:
            self._opened().delete(folder)
        return self.guard.problem

    def _opened(self) -> Tracker:
        from sweep.tracking import mlflow_store

        return mlflow_store.Tracker(self._settings)


class Delivery:
    """A thread that delivers marked trials until the store has them. The sweep never waits."""

    def __init__(self, tracking: Tracking, folder: SweepFolder) -> None:
        self._tracking = tracking
        self._folder = folder
        self._changed = threading.Condition()
        self._marked: set[str] = set()
        self._closing = False
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._work, name="delivery", daemon=True)
        self._thread.start()

    def mark(self, trial_id: str) -> None:
        """Mark a trial as changed on disk."""
        with self._changed:
            self._marked.add(trial_id)
            self._changed.notify_all()

    def close(self, *, timeout: float) -> str | None:
        """Wait for the delivery, or `timeout` seconds; returns why it is incomplete, or None."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._thread.is_alive() and self._problem is None:
            with self._tracking.guard:
                raise TimeoutError("the tracking store is slow")
            return self._tracking.guard.problem
        return self._problem

    def _work(self) -> None:
        is_last = False
        while not is_last:
            with self._changed:
                self._changed.wait_for(lambda: self._marked or self._closing)
                pause = _GATHERING if self._problem is None else _REST
                self._changed.wait_for(lambda: self._closing, timeout=pause)
                taken, self._marked = self._marked, set()
                is_last = self._closing
            if taken:
                self._problem = self._tracking.deliver(self._folder, sorted(taken), running=True)
            if self._problem is not None:
                with self._changed:
                    self._marked |= taken

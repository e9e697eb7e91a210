"""Sends the results of a sweep to MLflow (imported late: seconds); a failure never ends
a sweep.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from sweep import interrupts, status
from sweep.best_effort import BestEffort
from sweep.settings import Settings, hide_passwords, sqlite_uri
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from sweep.tracking.mlflow_store import Tracker

# Seconds without a trial after which the end of a sweep waits no longer; also after an
# interrupt.
_PATIENCE, _PATIENCE_WHEN_STOPPING = 60.0, 3.0
_SAYING = 10.0  # seconds between two words on how far the last delivery is
_REST = 5.0  # seconds after a failure
_GATHERING = 1.0  # seconds: trials marked within them are delivered together
_REFUSED = (400, 401, 403, 404, 501)  # HTTP statuses of what would be refused again


class StoreAway(InvalidInput):
    """A tracking store that does not answer now. Of any other, a resume delivers
    nothing either.
    """


def is_tracked(settings: Settings, folder: SweepFolder) -> bool:
    """Whether a sweep goes to MLflow: as its start decided, unless the user names
    it.
    """
    return settings.tracking and (
        settings.names_tracking or bool(folder.about().get("tracking", True))
    )


def may_pass(problem: Exception) -> bool:
    """Whether the same call may succeed later; False where its arguments were
    refused.
    """
    if isinstance(problem, InvalidInput):
        return isinstance(problem, StoreAway)
    status = getattr(
        problem, "get_http_status_code", None
    )  # of MLflow's own exceptions
    return status is None or status() not in _REFUSED


def open_store(settings: Settings) -> Tracker:
    """The store of these settings. Raises: InvalidInput as `Tracker`."""
    from sweep.tracking.mlflow_store import Tracker

    return Tracker(settings)


class Delivery:
    """A thread that copies the sweep in `folder` to MLflow: marked trials, until the
    store has them, and all at the end. The sweep never waits, and a failure is a line.
    """

    def __init__(self, settings: Settings, folder: SweepFolder) -> None:
        self._settings, self._folder = settings, folder
        self._tracker: Tracker | None = None
        usual = (
            sqlite_uri(settings.home / "mlflow.db"),
            os.environ.get("MLFLOW_TRACKING_URI"),
        )
        uri = settings.tracking_uri
        option = "" if uri in usual else f" --tracking-uri {hide_passwords(uri)}"
        later = (
            f"the sweep goes on; `sweep resume {folder.name}{option}` delivers the rest"
        )
        self._guard = BestEffort(
            "MLflow", then=lambda p: later if may_pass(p) else "the sweep goes on"
        )
        self._changed = threading.Condition()
        self._marked: set[str] = set()
        self._closing = self._given_up = False
        self._num_done, self._said = (
            0,
            0.0,
        )  # trials of this delivery; when that was said
        self._thread = threading.Thread(target=self._work, name="delivery", daemon=True)
        if is_tracked(settings, folder):
            self._thread.start()

    def mark(self, trial_id: str) -> None:
        """Mark a trial as changed on disk."""
        with self._changed:
            self._marked.add(trial_id)
            self._changed.notify_all()

    def close(self) -> str | None:
        """Deliver the sweep as it is at its end, for as long as the store takes trials;
        returns why that is incomplete, or None. Nothing is delivered of a sweep of
        which no trial has begun.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        while self._thread.is_alive() and not self._given_up:
            before, signal = self._num_done, interrupts.now.number
            self._thread.join(_PATIENCE_WHEN_STOPPING if signal else _PATIENCE)
            self._given_up = bool(signal) or self._num_done == before
        if self._thread.is_alive():
            self._thread.join(1.0)  # it ends before the next trial
            with self._guard:
                raise TimeoutError("the tracking store is slow")
        return self._guard.problem

    def _work(self) -> None:
        is_last = False
        while not is_last:
            with self._changed:
                self._changed.wait_for(lambda: self._marked or self._closing)
                pause = _GATHERING if self._guard.problem is None else _REST
                self._changed.wait_for(lambda: self._closing, timeout=pause)
                taken, self._marked = self._marked, set()
                is_last = self._closing
            with self._guard:
                if self._folder.state().begun:
                    self._deliver(None if is_last else taken)
            if self._guard.problem is not None:
                with self._changed:
                    self._marked |= taken

    def _deliver(self, trial_ids: set[str] | None) -> None:
        # After a failure the store is opened anew, and what it has is read again.
        tracker, self._tracker = self._tracker or open_store(self._settings), None
        try:
            tracker.deliver(self._folder, trial_ids, self._count)
        except Exception as problem:
            tracker = open_store(
                self._settings
            )  # which names what is wrong with all of it
            if may_pass(problem):
                raise
            # A run that was deleted is made anew.
            tracker.deliver(self._folder, trial_ids, self._count)
        self._tracker = tracker

    def _count(self, number: int, total: int) -> None:
        """The trial of this `number` of `total` comes next."""
        self._num_done += 1
        if (
            self._given_up
        ):  # this thread writes nothing behind the back of a caller who goes on
            raise SystemExit
        if self._closing and time.monotonic() - self._said > _SAYING:
            self._said = time.monotonic()
            status.enter(f"{status.DELIVERING}: {number} of {total} trials")

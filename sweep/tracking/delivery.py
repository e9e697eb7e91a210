"""Delivers results to the tracking store in the background of a sweep."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sweep.settings import first_line
from sweep.store.sweeps import SweepFolder
from trainables.errors import SweepError

if TYPE_CHECKING:
    from sweep.tracking.protocol import Tracker

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_GATHERING = 1.0  # seconds: trials marked within them are delivered together


class Delivery:
    """A thread that delivers marked trials, and retries until the store has them.

    The sweep never waits for it; the next resume delivers what is missing at the end.
    """

    def __init__(self, tracker: Tracker, folder: SweepFolder) -> None:
        self._tracker = tracker
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
        """Wait until all is delivered, or `timeout` seconds; returns the problem of an incomplete
        delivery."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._thread.is_alive() and self._problem is None:
            return "the tracking store is slow"
        return self._problem

    def _work(self) -> None:
        wait = _FIRST_WAIT
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._marked or self._closing)
                self._changed.wait_for(lambda: self._closing, timeout=_GATHERING)
                taken, self._marked = self._marked, set()
                last_try = self._closing
            if not taken:
                return
            try:
                self._tracker.deliver(self._folder, sorted(taken), running=True)
                self._problem, wait = None, _FIRST_WAIT
            except (OSError, SweepError) as problem:
                # A folder that was removed under the sweep is its driver's to report.
                self._problem = first_line(problem)
                with self._changed:
                    self._marked |= taken
                    if last_try:
                        return
                    self._changed.wait_for(lambda: self._closing, timeout=wait)
                wait = min(2 * wait, _LONGEST_WAIT)

"""A tracker that reconnects when the tracking server becomes available."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future

from sweep.settings import Settings
from sweep.store.sweeps import SweepFolder
from sweep.tracking import mlflow_store
from sweep.tracking.chosen import Trackers
from sweep.tracking.protocol import Tracker
from trainables.errors import InvalidInput, StorageFailed


class StoreAway(OSError):
    """The tracking store does not answer."""


class _Opened:
    """Forwards to the tracker that `_open` returns."""

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> object:
        """As `Tracker.deliver`."""
        return self._open().deliver(folder, trial_ids, running=running)

    def delete(self, folder: SweepFolder) -> None:
        """As `Tracker.delete`."""
        self._open().delete(folder)

    def _open(self) -> Tracker:
        raise NotImplementedError


class LateTracker(_Opened):
    """An MLflow tracker that each delivery tries to open until one succeeds. Not for several
    threads.

    `report` is called once, with the reason, where the store does not answer at first. A resumed
    sweep need not wait, because its results are on the disk.
    """

    def __init__(self, settings: Settings, *, report: Callable[[str], None]) -> None:
        self._settings = settings
        self._tracker: mlflow_store.Tracker | None = None
        try:
            self._open()
        except StoreAway as problem:
            report(str(problem))

    def close(self) -> None:
        """As `Tracker.close`."""
        if self._tracker is not None:
            self._tracker.close()

    def _open(self) -> mlflow_store.Tracker:
        if self._tracker is None:
            try:
                self._tracker = mlflow_store.Tracker(self._settings)
            except (InvalidInput, StorageFailed) as problem:
                raise StoreAway(str(problem)) from None
        return self._tracker


class ComingTracker(_Opened):
    """A tracker that another thread is opening; its first use waits for that thread."""

    def __init__(self, opened: Future[Tracker] | Future[Trackers]) -> None:
        self._opening = opened

    def close(self) -> None:
        """As `Tracker.close`."""
        if self._opening.exception() is None:
            self._opening.result().close()

    def _open(self) -> Tracker:
        try:
            return self._opening.result()
        except (InvalidInput, StorageFailed) as problem:
            raise StoreAway(str(problem)) from None

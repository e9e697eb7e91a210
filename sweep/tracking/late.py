"""A tracker that reconnects when the tracking server becomes available."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sweep.store.sweeps import SweepFolder
from sweep.tracking.protocol import Tracker
from trainables.errors import InvalidInput, StorageFailed


class StoreAway(OSError):
    """The tracking store does not answer."""


class LateTracker:
    """The tracker that `opening` returns, which each delivery calls until it succeeds. Not for
    several threads.

    A resumed sweep need not wait for its store, because its results are on the disk.
    """

    def __init__(self, opening: Callable[[], Tracker]) -> None:
        self._opening = opening
        self._tracker: Tracker | None = None

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> object:
        """As `Tracker.deliver`. Raises: StoreAway."""
        return self.open().deliver(folder, trial_ids, running=running)

    def delete(self, folder: SweepFolder) -> None:
        """As `Tracker.delete`. Raises: StoreAway."""
        self.open().delete(folder)

    def close(self) -> None:
        """As `Tracker.close`; nothing is open before the first use."""
        if self._tracker is not None:
            self._tracker.close()

    def open(self) -> Tracker:
        """The tracker. Raises: StoreAway."""
        if self._tracker is None:
            try:
                self._tracker = self._opening()
            except (InvalidInput, StorageFailed) as problem:
                raise StoreAway(str(problem)) from None
        return self._tracker

"""A tracker whose store may be away when a sweep goes on: it is opened when it is there again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future

from sweep.settings import Settings
from sweep.store.sweeps import SweepFolder
from sweep.tracking.mlflow_store import Tracker
from trainables.errors import InvalidInput, StorageFailed


class StoreAway(OSError):
    """The tracking store does not answer yet."""


class LateTracker:
    """A `Tracker` that each delivery tries to open until one succeeds. Not for several threads.

    `report` is called once, with the reason, where the store does not answer at first: what a
    resumed sweep does is on the disk, so it need not wait.
    """

    def __init__(self, settings: Settings, *, report: Callable[[str], None]) -> None:
        self._settings = settings
        self._tracker: Tracker | None = None
        try:
            self._opened()
        except StoreAway as problem:
            report(str(problem))

    @property
    def away(self) -> tuple[type[Exception], ...]:
        """What a call raises while the store does not answer."""
        return (OSError,) if self._tracker is None else self._tracker.away

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> str:
        """As `Tracker.deliver`."""
        return self._opened().deliver(folder, trial_ids, running=running)

    def _opened(self) -> Tracker:
        if self._tracker is None:
            try:
                self._tracker = Tracker(self._settings)
            except InvalidInput as problem:
                raise StoreAway(str(problem)) from None
        return self._tracker


class ComingTracker:
    """A tracker that another thread is opening: its first use waits for it."""

    def __init__(self, opened: Future[Tracker | LateTracker]) -> None:
        self._opening = opened

    @property
    def away(self) -> tuple[type[Exception], ...]:
        """What a call raises while the store does not answer."""
        has_failed = self._opening.exception() is not None  # waits for it
        return (OSError,) if has_failed else self._opening.result().away

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> str:
        """As `Tracker.deliver`."""
        return self._opened().deliver(folder, trial_ids, running=running)

    def delete(self, folder: SweepFolder) -> None:
        """As `Tracker.delete`."""
        opened = self._opened()
        if isinstance(opened, Tracker):
            opened.delete(folder)

    def _opened(self) -> Tracker | LateTracker:
        try:
            return self._opening.result()
        except (InvalidInput, StorageFailed) as problem:
            raise StoreAway(str(problem)) from None

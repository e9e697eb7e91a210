"""The interface of trackers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from sweep.store.sweeps import SweepFolder

Away = Callable[[str], None]


class Tracker(Protocol):
    """Copies the state on disk to a tracking service. Delivering is idempotent.

    What a tracker raises is an OSError of `chosen.Trackers`; the results are delivered later.
    """

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> object:
        """Update trials to the state on disk: those of the ids, None: every one that has begun.
        `running` is True while the sweep runs.
        """
        ...

    def delete(self, folder: SweepFolder) -> None:
        """Remove the delivered data of the sweep."""
        ...

    def close(self) -> None:
        """End delivery by this process."""
        ...

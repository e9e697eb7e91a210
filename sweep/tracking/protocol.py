"""What a sweep asks of a tracker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from sweep.store.sweeps import SweepFolder

Away = Callable[[str], None]


class Tracker(Protocol):
    """Brings what the disk says to where it is looked at. Delivering twice changes nothing."""

    @property
    def away(self) -> tuple[type[Exception], ...]:
        """What a call raises while results cannot be delivered; they are delivered later."""
        ...

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> object:
        """Bring trials up to what the disk says: those of the ids, None: every one that has begun.
        `running` says whether the sweep goes on.
        """
        ...

    def delete(self, folder: SweepFolder) -> None:
        """Remove what was delivered of the sweep."""
        ...

    def close(self) -> None:
        """Nothing more is delivered by this process."""
        ...

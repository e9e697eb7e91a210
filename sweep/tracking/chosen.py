"""The trackers of the settings as one; a failure of one does not block the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from sweep.settings import Settings, first_line, sqlite_file
from sweep.store.sweeps import SweepFolder
from sweep.tracking.protocol import Away, Tracker
from trainables import catalogue
from trainables.errors import SweepError

SHELF = "sweep.tracking.trackers"


def require_usable(settings: Settings) -> None:
    """Raises: InvalidInput for a tracker that is unknown, not installed or not set up."""
    for name in settings.tracking:
        catalogue.entry(SHELF, name).check(settings)


def for_sweep(settings: Settings, folder: SweepFolder) -> Settings:
    """The settings with the trackers of a started sweep: those that the user names, else those of
    its start, and in both cases those of earlier processes. A user's `none` leaves out all.
    """
    if settings.names_trackers and not settings.tracking:
        return settings
    known = folder.about().get("tracking")
    if known is not None and not settings.names_trackers:  # None: before they were recorded
        settings = replace(settings, tracking=tuple(known))
    return with_traces(settings, folder.name)


def with_traces(settings: Settings, sweep: str) -> Settings:
    """The settings extended by the trackers that an earlier process used for this sweep."""
    known = [n for n in catalogue.names(SHELF) if (settings.home / n / sweep).is_dir()]
    return replace(settings, tracking=tuple(dict.fromkeys((*settings.tracking, *known))))


def without_new(settings: Settings) -> Settings:
    """The settings without a store that nothing was written to: MLflow's, whose file is missing."""
    file = sqlite_file(settings.tracking_uri)
    if file is None or file.exists():
        return settings
    return replace(settings, tracking=tuple(n for n in settings.tracking if n != "mlflow"))


def open_trackers(settings: Settings, *, away: Away | None = None) -> Trackers:
    """The trackers of the settings, opened.

    Raises: as their `check` and `open_tracker`.
    """
    require_usable(settings)
    return Trackers(
        {
            name: catalogue.entry(SHELF, name).open_tracker(settings, away=away)
            for name in settings.tracking
        }
    )


class Behind(OSError):
    """Trackers that could not receive results, with reasons."""


class Trackers:
    """Several trackers as one; their failures are raised as `Behind`."""

    def __init__(self, opened: Mapping[str, Tracker]) -> None:
        self._opened = opened

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> None:
        """See `Tracker`. Raises: Behind, once each has been tried."""
        ids = None if trial_ids is None else list(trial_ids)
        self._each(lambda tracker: tracker.deliver(folder, ids, running=running))

    def delete(self, folder: SweepFolder) -> None:
        """See `Tracker`. Raises: Behind."""
        self._each(lambda tracker: tracker.delete(folder))

    def close(self) -> None:
        """See `Tracker`. Missing results have been reported by `deliver`."""
        with suppress(Behind):
            self._each(lambda tracker: tracker.close())

    def _each(self, call: Callable[[Tracker], Any]) -> None:
        problems = [
            f"{name}: {reason}"
            for name, tracker in self._opened.items()
            if (reason := _reason(partial(call, tracker))) is not None
        ]
        if problems:
            raise Behind("; ".join(problems))


def _reason(call: Callable[[], Any]) -> str | None:
    """The reason of a failed call in a line, or None.

    Problems of the sweep's folder are reported by its driver.
    """
    try:
        call()
    except SweepError:
        raise
    except Exception as problem:  # noqa: BLE001  whatever a tracker's library raises, trials go on
        return first_line(problem)
    return None

"""Starts everything that a sweep needs before its first trial, concurrently."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

from sweep import phases
from sweep.runtime.events import RunSettings
from sweep.settings import Settings
from sweep.tracking.chosen import open_trackers
from sweep.tracking.connection import was_opened
from sweep.tracking.late import LateTracker
from sweep.tracking.protocol import Away, Tracker


@contextmanager
def tracking(settings: Settings, *, away: Away | None = None) -> Iterator[Tracker]:
    """The trackers of the settings, as one. MLflow is imported here and nowhere earlier.

    Where the store does not answer, `away` gets the reason, and it is opened later; without `away`
    it is refused. Raises: as `Tracker`.
    """
    phases.enter(phases.OPENING_TRACKERS)
    with closing(open_trackers(settings, away=away)) as tracker:
        yield tracker


@contextmanager
def tracking_and_ray(
    settings: Settings, run_settings: RunSettings, *, away: Away | None = None
) -> Iterator[Tracker]:
    """The trackers, as `tracking`, and Ray for the time of the block.

    Ray's start is mostly work of other processes; meanwhile this one imports what drives trials.
    MLflow is imported and its store is opened afterwards. Trials wait for that where no earlier
    sweep has opened the store. Ray starts in this thread because it sets signal handlers, which
    only the main thread can.

    Raises: as `Tracker` and `session.session`.
    """
    from sweep.runtime.on_ray import session as ray_session

    phases.enter(phases.STARTING_RAY)
    ray_session.set_environment(run_settings)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="start-up") as pool:
        pool.submit(importlib.import_module, "sweep.runtime.on_ray.gang")
        opening = None if was_opened(settings) else pool.submit(open_trackers, settings, away=away)
        with ray_session.session(run_settings):
            if opening is not None:
                with closing(opening.result()) as tracker:
                    yield tracker
                return
            later = pool.submit(open_trackers, settings, away=away)
            try:
                yield LateTracker(later.result)
            finally:  # it is opened whether it is used or not
                if later.exception() is None:
                    later.result().close()

"""What a sweep waits for before its first trial, brought up side by side."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from sweep import phases
from sweep.runtime.events import RunSettings
from sweep.settings import Settings
from sweep.tracking.connection import was_opened
from sweep.tracking.late import ComingTracker

Away = Callable[[str], None]


@contextmanager
def tracking(settings: Settings, *, away: Away | None = None) -> Iterator[Any]:
    """The tracker of the settings. MLflow is imported here and nowhere earlier.

    Where the store does not answer, `away` gets the reason, and it is opened later; without `away`
    it is refused. Raises: as `Tracker`.
    """
    phases.enter(phases.OPENING_MLFLOW)
    yield _tracker(settings, away)


@contextmanager
def tracking_and_ray(
    settings: Settings, run_settings: RunSettings, *, away: Away | None = None
) -> Iterator[Any]:
    """The tracker, as `tracking`, and Ray for the time of the block.

    Ray's start is mostly other processes' work, in whose time this one imports MLflow and opens its
    store. Trials do not wait for a store that an earlier sweep has opened. Ray starts in this
    thread: it sets signal handlers, which only the main thread can.

    Raises: as `Tracker` and `ray_session.session`.
    """
    from sweep.runtime import ray_session

    phases.enter(phases.STARTING_RAY)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="start-up") as pool:
        pool.submit(importlib.import_module, "torch")  # Ray Train asks for it next
        tracker = pool.submit(_tracker, settings, away)
        with ray_session.session(run_settings):
            yield ComingTracker(tracker) if was_opened(settings) else tracker.result()


def _tracker(settings: Settings, away: Away | None) -> Any:
    if away is not None:
        from sweep.tracking.late import LateTracker

        return LateTracker(settings, report=away)
    from sweep.tracking.mlflow_store import Tracker

    return Tracker(settings)

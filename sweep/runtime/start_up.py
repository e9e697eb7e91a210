"""Starts everything that a sweep needs before its first trial, concurrently."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sweep import phases
from sweep.runtime.events import RunSettings
from sweep.settings import Settings
from sweep.tracking.delivery import Tracking


@contextmanager
def tracking(settings: Settings, *, sweep: str, must_answer: bool = True) -> Iterator[Tracking]:
    """MLflow for the sweep of a name. It is imported here and nowhere earlier.

    Raises: as `Tracking.open`.
    """
    phases.enter(phases.OPENING_MLFLOW)
    tracker = Tracking(settings, sweep)
    tracker.open(must_answer=must_answer)
    yield tracker


@contextmanager
def tracking_and_ray(
    settings: Settings, run_settings: RunSettings, *, sweep: str, must_answer: bool = True
) -> Iterator[Tracking]:
    """MLflow, as `tracking`, and Ray for the time of the block.

    Ray's start is mostly work of other processes; meanwhile this one imports what drives trials and
    opens MLflow's store. Ray starts in this thread because it sets signal handlers, which only the
    main thread can.

    Raises: as `Tracking.open` and `session.session`.
    """
    from sweep.runtime import ray_session

    phases.enter(phases.STARTING_RAY)
    ray_session.set_environment(run_settings)
    tracker = Tracking(settings, sweep)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="start-up") as pool:
        pool.submit(importlib.import_module, "sweep.runtime.tune")
        opening = pool.submit(tracker.open, must_answer=must_answer)
        with ray_session.session(run_settings):
            opening.result()
            yield tracker

"""What a sweep waits for before its first trial, brought up side by side."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from sweep.events import RunSettings
from sweep.settings import Settings


@contextmanager
def tracking(settings: Settings) -> Iterator[Any]:
    """The tracker of the settings. MLflow is imported here and nowhere earlier."""
    yield _tracker(settings)


@contextmanager
def tracking_and_ray(settings: Settings, run_settings: RunSettings) -> Iterator[Any]:
    """The tracker, and Ray for the time of the block.

    Ray's start is mostly other processes' work, in whose time this one imports MLflow and opens its
    store. Ray starts in this thread: it sets signal handlers, which only the main thread can.

    Raises: as `Tracker` and `ray_session.session`.
    """
    from sweep import ray_session

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="start-up") as pool:
        tracker = pool.submit(_tracker, settings)
        pool.submit(importlib.import_module, "torch")  # Ray Train asks for it next
        with ray_session.session(run_settings):
            yield tracker.result()


def _tracker(settings: Settings) -> Any:
    from sweep.mlflow_tracking import Tracker

    return Tracker(settings)

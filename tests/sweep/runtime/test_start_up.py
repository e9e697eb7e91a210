"""What is opened before the first trial is closed after the last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sweep.runtime import start_up
from sweep.runtime.events import RunSettings
from sweep.runtime.on_ray import session
from sweep.settings import Settings


class _Tracker:
    """Counts how often it is closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("is_known", [False, True], ids=["new store", "known store"])
def test_a_tracker_is_closed_where_no_trial_used_it(
    is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = _Tracker()

    @contextmanager
    def started(_: RunSettings) -> Iterator[None]:
        yield

    monkeypatch.setattr(session, "session", started)
    monkeypatch.setattr(session, "set_environment", lambda _: None)
    monkeypatch.setattr(start_up, "open_trackers", lambda _, away: tracker)
    monkeypatch.setattr(start_up, "was_opened", lambda _: is_known)
    settings = Settings(
        home=tmp_path, data_dir=tmp_path, cache_dir=tmp_path, tracking_uri="sqlite:///unused.db"
    )
    with suppress(KeyboardInterrupt), start_up.tracking_and_ray(settings, RunSettings()):
        raise KeyboardInterrupt
    assert tracker.closed == 1

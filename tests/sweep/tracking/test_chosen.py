"""Several trackers as one: each is tried, and a failure of one costs a line and no other result."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sweep.settings import from_environment
from sweep.store.sweeps import SweepFolder
from sweep.tracking import delivery as delivery_thread
from sweep.tracking.chosen import (
    Behind,
    Trackers,
    for_sweep,
    open_trackers,
    require_usable,
    with_traces,
)
from sweep.tracking.connection import require_answer
from sweep.tracking.delivery import Delivery
from sweep.tracking.late import LateTracker
from tests.sweep.sweeps import settings_in
from trainables.errors import InvalidData, InvalidInput

FOLDER = SweepFolder(Path("unused"))


class Recorder:
    """A tracker that keeps what it is given, and raises `problem` first."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.calls: list[Any] = []

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> None:
        self._fail()
        self.calls.append((None if trial_ids is None else list(trial_ids), running))

    def delete(self, folder: SweepFolder) -> None:
        self._fail()
        self.calls.append("delete")

    def close(self) -> None:
        self._fail()
        self.calls.append("close")

    def _fail(self) -> None:
        if self.problem is not None:
            raise self.problem


def test_every_tracker_gets_all_trials_also_of_an_iterator() -> None:
    """Which the first one would use up."""
    one, two = Recorder(), Recorder()
    trackers = Trackers({"one": one, "two": two})
    trackers.deliver(FOLDER, iter(["a", "b"]), running=True)
    trackers.deliver(FOLDER, running=False)
    trackers.delete(FOLDER)
    trackers.close()
    assert one.calls == two.calls == [(["a", "b"], True), (None, False), "delete", "close"]


@pytest.mark.parametrize("problem", [OSError("away\nsecond line"), ValueError("away"), KeyError()])
def test_whatever_one_raises_the_others_have_their_results(problem: Exception) -> None:
    """And the reason is one line with the tracker's name."""
    broken, whole = Recorder(problem), Recorder()
    trackers = Trackers({"broken": broken, "whole": whole})
    with pytest.raises(Behind, match=r"^broken: (away|KeyError)$"):
        trackers.deliver(FOLDER, ["a"], running=True)
    assert whole.calls == [(["a"], True)]
    trackers.close()
    assert whole.calls[-1] == "close"


def test_all_reasons_are_said_and_long_ones_are_cut() -> None:
    trackers = Trackers({"a": Recorder(OSError("x" * 999)), "b": Recorder(OSError("gone"))})
    with pytest.raises(Behind) as found:
        trackers.delete(FOLDER)
    assert str(found.value) == f"a: {'x' * 200}; b: gone"


def test_damage_of_the_sweep_itself_is_no_matter_of_a_tracker() -> None:
    trackers = Trackers({"a": Recorder(InvalidData("damaged plan")), "b": Recorder()})
    with pytest.raises(InvalidData, match="damaged plan"):
        trackers.deliver(FOLDER, running=True)


def test_an_unknown_tracker_is_refused_by_name(tmp_path: Path) -> None:
    settings = replace(settings_in(tmp_path), tracking=("tensorboard", "tensorbord"))
    with pytest.raises(InvalidInput, match="tensorbord"):
        require_usable(settings)
    with pytest.raises(InvalidInput, match="tensorbord"):
        open_trackers(settings)
    assert not settings.home.exists()


def test_trackers_that_have_files_of_the_sweep_follow_it_further(tmp_path: Path) -> None:
    """A resume without the option does not leave half a sweep there."""
    settings = replace(settings_in(tmp_path), tracking=("mlflow",))
    (settings.home / "tensorboard" / "mine").mkdir(parents=True)
    (settings.home / "wandb" / "another").mkdir(parents=True)
    assert with_traces(settings, "mine").tracking == ("mlflow", "tensorboard")
    assert with_traces(settings, "new").tracking == ("mlflow",)
    chosen = replace(settings, tracking=("tensorboard", "mlflow"))
    assert with_traces(chosen, "mine") == chosen, "once, in the order of the settings"


@pytest.mark.parametrize(
    ("named", "about", "traces", "expected"),
    [
        (None, {}, (), ("mlflow",)),  # of a sweep before they were recorded: the default
        (None, {"tracking": ["wandb"]}, (), ("wandb",)),
        (None, {"tracking": ["wandb"]}, ("tensorboard",), ("wandb", "tensorboard")),
        (None, {"tracking": []}, (), ()),
        (None, {"tracking": []}, ("tensorboard",), ("tensorboard",)),
        ("mlflow", {"tracking": ["wandb"]}, ("tensorboard",), ("mlflow", "tensorboard")),
        ("none", {"tracking": ["wandb"]}, ("tensorboard",), ()),
    ],
)
def test_a_started_sweep_keeps_its_trackers_unless_others_are_named(
    named: str | None,
    about: dict[str, Any],
    traces: tuple[str, ...],
    expected: tuple[str, ...],
    tmp_path: Path,
) -> None:
    settings = from_environment({"SWEEP_HOME": str(tmp_path)}, tracking=[named] if named else [])
    for name in traces:
        (settings.home / name / "mine").mkdir(parents=True)
    folder = cast(SweepFolder, SimpleNamespace(name="mine", about=lambda: about))
    assert for_sweep(settings, folder).tracking == expected


@pytest.mark.parametrize(
    ("environment", "options", "named"),
    [
        ({}, [], False),
        ({"SWEEP_TRACKING": ""}, [], False),
        ({"SWEEP_TRACKING": "mlflow"}, [], True),
        ({}, ["none"], True),
    ],
)
def test_trackers_are_named_by_an_option_or_the_environment(
    environment: dict[str, str], options: list[str], named: bool
) -> None:
    assert from_environment(environment, tracking=options).names_trackers is named


# ---- the thread that delivers


def test_marks_of_one_moment_are_one_delivery_in_the_order_of_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery_thread, "_GATHERING", 60.0)  # a moment on a busy machine
    tracker = Recorder()
    delivery = Delivery(tracker, FOLDER)
    for name in ("b", "a", "b"):
        delivery.mark(name)
    assert delivery.close(timeout=60) is None
    assert tracker.calls == [(["a", "b"], True)]


def test_a_closed_delivery_without_marks_delivers_nothing() -> None:
    tracker = Recorder()
    assert Delivery(tracker, FOLDER).close(timeout=60) is None
    assert tracker.calls == []


@pytest.mark.parametrize("problem", [OSError("no route\nand more"), InvalidInput("no folder")])
def test_a_store_that_stays_away_is_the_reason_in_one_line(problem: Exception) -> None:
    delivery = Delivery(Recorder(problem), FOLDER)
    delivery.mark("a")
    assert delivery.close(timeout=60) == str(problem).splitlines()[0]


def test_a_store_that_does_not_return_does_not_hold_the_sweep() -> None:
    over = threading.Event()

    class Slow(Recorder):
        def deliver(self, *args: Any, **kwargs: Any) -> None:
            over.wait(60)

    delivery = Delivery(Slow(), FOLDER)
    delivery.mark("a")
    assert delivery.close(timeout=0.1) == "the tracking store is slow"
    over.set()


# ---- a tracker that is being opened


def test_a_tracker_that_comes_is_the_one_that_came() -> None:
    opening: Future[Any] = Future()
    coming = LateTracker(opening.result)
    tracker = Recorder()
    opening.set_result(tracker)
    coming.deliver(FOLDER, ["a"], running=True)
    coming.delete(FOLDER)
    coming.close()
    assert tracker.calls == [(["a"], True), "delete", "close"]


def test_one_that_never_came_is_closed_without_a_word() -> None:
    opening: Future[Any] = Future()
    opening.set_exception(InvalidInput("no answer"))
    LateTracker(opening.result).close()


# ---- a server


class Answers(BaseHTTPRequestHandler):
    """404 to everything: an answer, though of another server."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *args: object) -> None:
        """Nothing is printed."""


def test_any_answer_of_a_server_is_one_and_silence_is_refused_with_its_address(
    silent_port: int,
) -> None:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        require_answer(address)
        require_answer(f"{address}/")
        require_answer(address.replace("://", "://ann:s3cret@"))
    finally:
        server.shutdown()
        server.server_close()
    address = f"http://127.0.0.1:{silent_port}"
    with pytest.raises(InvalidInput, match=f"^tracking server {address} does not answer"):
        require_answer(address)
    with pytest.raises(InvalidInput) as refused:
        require_answer(address.replace("://", "://ann:s3cret@"))
    assert "://ann:***@127" in str(refused.value)
    require_answer("sqlite:////nowhere/mlflow.db")

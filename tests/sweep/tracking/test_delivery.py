"""Marked trials reach the store, also one that is away at first; no failure of it is more than a
line.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweep.store.sweeps import SweepFolder
from sweep.tracking import delivery as delivery_thread
from sweep.tracking import mlflow_store
from sweep.tracking.connection import StoreAway, require_answer
from sweep.tracking.delivery import Delivery, Tracking
from tests.sweep.sweeps import settings_in
from trainables.errors import InvalidInput, StorageFailed

FOLDER = SweepFolder(Path("unused"))


class Recorder:
    """A store that raises `problems` first, one at each opening or delivery."""

    def __init__(self) -> None:
        self.problems: list[Exception] = []
        self.openings = 0
        self.calls: list[Any] = []

    def __call__(self, settings: object) -> Recorder:
        self.openings += 1
        self._fail(StoreAway, StorageFailed, InvalidInput)
        return self

    def deliver(
        self, folder: SweepFolder, ids: Iterable[str] | None = None, *, running: bool
    ) -> None:
        self._fail(Exception)
        self.calls.append((ids, running))

    def delete(self, folder: SweepFolder) -> None:
        self._fail(Exception)
        self.calls.append("delete")

    def _fail(self, *kinds: type[Exception]) -> None:
        if self.problems and isinstance(self.problems[0], kinds):
            raise self.problems.pop(0)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(mlflow_store, "Tracker", recorder)
    return recorder


@pytest.fixture
def tracking(store: Recorder, tmp_path: Path) -> Tracking:
    return Tracking(settings_in(tmp_path), "mine")


class Refused(Exception):
    """As MLflow refuses what was sent."""

    error_code = "INVALID_PARAMETER_VALUE"


LATER = "the sweep goes on; `sweep resume mine` delivers the rest"


@pytest.mark.parametrize(
    ("problems", "then"),
    [
        ([OSError("away\nsecond line")], LATER),
        ([RuntimeError("away")], LATER),
        ([Refused("away"), Refused("away")], "the sweep goes on"),
        ([Refused("no such run"), InvalidInput("away")], "the sweep goes on"),
    ],
)
def test_a_failure_is_one_line_and_what_it_promises_can_be_true(
    problems: list[Exception],
    then: str,
    tracking: Tracking,
    store: Recorder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store.problems = problems
    assert tracking.deliver(FOLDER, ["a"], running=True) == "away"
    store.problems = [OSError("still away")]
    assert tracking.deliver(FOLDER, ["a"], running=True) == "still away"
    assert capsys.readouterr().err == f"MLflow failed (away): {then}\n"
    assert tracking.deliver(FOLDER, iter(["a"]), running=True) is None
    assert tracking.deliver(FOLDER, running=False) is None
    assert store.calls == [(["a"], True), (None, False)]


def test_a_run_that_was_deleted_meanwhile_costs_no_line(
    tracking: Tracking, store: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store is read again."""
    tracking.open(must_answer=True)
    store.problems = [Refused("no such run")]
    assert tracking.deliver(FOLDER, ["a"], running=True) is None
    assert (store.calls, store.openings) == ([(["a"], True)], 2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("problem", [StoreAway("no answer"), StorageFailed("no disk")])
def test_a_store_that_need_not_answer_is_opened_later(
    problem: Exception, tracking: Tracking, store: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    store.problems = [problem, problem]
    with pytest.raises(type(problem)):
        tracking.open(must_answer=True)
    tracking.open(must_answer=False)
    assert capsys.readouterr().err == f"MLflow failed ({problem}): {LATER}\n"
    assert tracking.deliver(FOLDER, running=False) is None
    assert tracking.delete(FOLDER) is None
    store.problems = [ValueError("gone")]
    assert tracking.delete(FOLDER) == "gone"


def test_a_store_that_cannot_be_used_is_refused_in_any_case(
    tracking: Tracking, store: Recorder
) -> None:
    store.problems = [InvalidInput("deleted")]
    with pytest.raises(InvalidInput, match="deleted"):
        tracking.open(must_answer=False)


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_failure(
    leaving: type[BaseException],
    tracking: Tracking,
    store: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise leaving

    monkeypatch.setattr(store, "deliver", interrupted)
    with pytest.raises(leaving):
        tracking.deliver(FOLDER, running=True)


# ---- the thread that delivers


def test_marks_of_one_moment_are_one_delivery_in_the_order_of_ids(
    tracking: Tracking, store: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_thread, "_GATHERING", 60.0)  # a moment on a busy machine
    delivery = Delivery(tracking, FOLDER)
    for name in ("b", "a", "b"):
        delivery.mark(name)
    assert delivery.close(timeout=60) is None
    assert store.calls == [(["a", "b"], True)]


def test_a_closed_delivery_without_marks_delivers_nothing(
    tracking: Tracking, store: Recorder
) -> None:
    assert Delivery(tracking, FOLDER).close(timeout=60) is None
    assert store.calls == []


def test_a_store_that_is_away_gets_all_later(tracking: Tracking, store: Recorder) -> None:
    store.problems = [StoreAway("no answer"), OSError("no answer")]
    delivery = Delivery(tracking, FOLDER)
    delivery.mark("t1")
    until = time.monotonic() + 60
    while not store.calls and time.monotonic() < until:
        time.sleep(0.05)
    assert store.calls == [(["t1"], True)]
    assert delivery.close(timeout=60) is None


def test_a_store_that_stays_away_is_the_reason_in_one_line(
    tracking: Tracking, store: Recorder
) -> None:
    store.problems = [OSError("no route\nand more")] * 9
    delivery = Delivery(tracking, FOLDER)
    delivery.mark("a")
    assert delivery.close(timeout=60) == "no route"


def test_a_store_that_does_not_return_does_not_hold_the_sweep(
    tracking: Tracking,
    store: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    over = threading.Event()
    monkeypatch.setattr(store, "deliver", lambda *_, **__: over.wait(60))
    delivery = Delivery(tracking, FOLDER)
    delivery.mark("a")
    assert delivery.close(timeout=0.1) == "the tracking store is slow"
    assert capsys.readouterr().err == f"MLflow failed (the tracking store is slow): {LATER}\n"
    over.set()


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
    with pytest.raises(StoreAway, match=f"^tracking server {address} does not answer"):
        require_answer(address)
    with pytest.raises(StoreAway) as refused:
        require_answer(address.replace("://", "://ann:s3cret@"))
    assert "://ann:***@127" in str(refused.value)
    require_answer("sqlite:////nowhere/mlflow.db")

"""The daemons of a cluster of this machine: no monitors, and a dashboard that comes later."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
from ray._private.node import Node

from sweep.runtime.on_ray import node as ours
from sweep.runtime.on_ray.node import LaterDashboard, own_daemons

NAMES = ("start_monitor", "start_log_monitor", "start_api_server")


class Started:
    """A start of the dashboard that says when, and in which thread, it was called."""

    def __init__(self) -> None:
        self.was_called = threading.Event()
        self.thread: threading.Thread | None = None
        self.options: dict[str, Any] = {}

    def __call__(self, node: object, **options: Any) -> None:
        self.options = options
        self.thread = threading.current_thread()
        self.was_called.set()


def test_ray_has_the_methods_that_are_replaced() -> None:
    """A later Ray with other names would start its monitors, and wait for its dashboard."""
    for name in NAMES:
        assert name in vars(Node)
    assert "include_dashboard" in inspect.signature(Node.start_api_server).parameters


def test_a_node_of_ours_has_no_monitors_and_ray_is_left_as_it_was() -> None:
    before = {name: vars(Node)[name] for name in NAMES}
    node = Node.__new__(Node)  # no process is started
    with own_daemons(LaterDashboard()):
        node.start_monitor()
        node.start_log_monitor()
        node.start_api_server(include_dashboard=None, raise_on_failure=False)
    assert {name: vars(Node)[name] for name in NAMES} == before


def test_the_dashboard_starts_once_ray_is_up_and_its_thread_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel ends a daemon with the thread that started it."""
    monkeypatch.setattr(ours, "_DASHBOARD_AFTER_SECONDS", 0.0)
    dashboard, started = LaterDashboard(), Started()
    dashboard.start(object(), started, include_dashboard=None, raise_on_failure=False)
    assert not started.was_called.wait(0.05), "Ray is not up yet"
    dashboard.begin()
    assert started.was_called.wait(30)
    assert started.options == {"include_dashboard": None, "raise_on_failure": False}
    assert started.thread is not None
    assert started.thread.is_alive()
    dashboard.end()
    assert not started.thread.is_alive()


def test_a_dashboard_that_fails_to_start_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of its thread would be a traceback in the middle of a live table."""
    monkeypatch.setattr(ours, "_DASHBOARD_AFTER_SECONDS", 0.0)
    called = threading.Event()

    def fail(node: object, **options: Any) -> None:
        called.set()
        raise OSError("no space left")

    dashboard = LaterDashboard()
    dashboard.start(object(), fail, include_dashboard=None, raise_on_failure=False)
    dashboard.begin()
    assert called.wait(60)
    dashboard.end()


@pytest.mark.parametrize("include", [None, False], ids=["a short sweep", "without a dashboard"])
def test_some_sweeps_start_no_dashboard(include: bool | None) -> None:
    dashboard, started = LaterDashboard(), Started()
    dashboard.start(object(), started, include_dashboard=include, raise_on_failure=False)
    dashboard.begin()
    dashboard.end()
    assert not started.was_called.is_set()


def test_a_failed_start_of_ray_leaves_no_thread() -> None:
    dashboard = LaterDashboard()
    dashboard.start(object(), Started(), include_dashboard=None, raise_on_failure=False)
    dashboard.end()

"""Selects the daemons that Ray starts for a local cluster that ends with its sweep.

Ray starts the daemons of a node one after another; most are Python processes that import Ray. Two
of them have nothing to do here: the autoscaler's monitor, because no node can be requested, and the
log monitor, which sends output of workers to a driver that ignores it. The dashboard is
needed by users, not by trials; it starts when the first trials have had time to begin.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

_DASHBOARD_AFTER_SECONDS = 10.0
_NOT_NEEDED = ("start_monitor", "start_log_monitor")
_JOIN_SECONDS = 5.0


class LaterDashboard:
    """Ray's dashboard, started by a thread after a while.

    The thread lives as long as the dashboard: the kernel ends the daemon with the thread that
    started it.
    """

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, node: Any, start: Any, **options: Any) -> None:
        """Call `start(node, **options)` later; nothing where the options leave the dashboard out.

        `node` is in place of `Node.start_api_server`'s self.
        """
        if options.get("include_dashboard") is not False:
            call = partial(start, node, **options)
            self._thread = threading.Thread(target=self._serve, args=[call], daemon=True)

    def begin(self) -> None:
        """Begin to count the seconds: Ray is up."""
        if self._thread is not None:
            self._thread.start()

    def end(self) -> None:
        """End the dashboard, or prevent its start."""
        self._over.set()
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(_JOIN_SECONDS)

    def _serve(self, call: partial[Any]) -> None:
        if not self._over.wait(_DASHBOARD_AFTER_SECONDS):
            with suppress(Exception):  # a full disk, say; trials do not need it
                call()
            self._over.wait()


@contextmanager
def own_daemons(dashboard: LaterDashboard) -> Iterator[None]:
    """For the time of the block, a node that Ray starts has the daemons of a sweep.

    In a version of Ray whose methods have other names, all daemons start.
    """
    from ray._private.node import Node

    replaced: dict[str, Any] = {name: lambda node: None for name in _NOT_NEEDED}
    original = getattr(Node, "start_api_server", None)
    replaced["start_api_server"] = lambda node, **options: dashboard.start(
        node, original, **options
    )
    before = {name: vars(Node)[name] for name in replaced if name in vars(Node)}
    for name in before:
        setattr(Node, name, replaced[name])
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(Node, name, method)

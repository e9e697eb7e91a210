"""A pytest session that collects the tests once and then runs some of them in forked children."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

# What a fork's parent has imported already is not rewritten, and need not be.
_QUIET = (
    *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-p", "no:faulthandler", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class Failures:
    """Which tests of this process failed."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.said = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Once for setup, call and teardown each."""
        if report.failed:
            self.names.append(report.nodeid)
            self.said = str(report.longrepr)[-2_000:]


class Collected:
    """Calls `then` with the collected tests instead of running them."""

    def __init__(self, then: Callable[[list[pytest.Item]], None]) -> None:
        self._then = then
        self.errors: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected must not pass in silence."""
        if report.failed:
            self.errors.append(f"{report.nodeid}: {report.longrepr}")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own."""
        self._then(session.items)
        return True


def collect(names: Sequence[str], then: Callable[[list[pytest.Item]], None]) -> None:
    """Collect the tests of these files and folders, and hand them over.

    Raises: SystemExit where a file cannot be collected.
    """
    plugin = Collected(then)
    code = pytest.main([*_QUIET, *names], plugins=[plugin])
    if plugin.errors or code not in (0, 5):
        raise SystemExit("\n".join(plugin.errors) or f"pytest ended with {code}")


def first_failure(items: Sequence[pytest.Item]) -> tuple[str | None, str]:
    """Run tests until one fails; its name, and what it said."""
    failures = Failures()
    items[0].config.pluginmanager.register(failures)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.names:
            return failures.names[0], failures.said
    return None, ""


def first_failure_of(names: Sequence[str]) -> tuple[str | None, str]:
    """The same in a process that has collected nothing yet; an error of collection counts."""
    found: list[tuple[str | None, str]] = []

    def then(items: list[pytest.Item]) -> None:
        by_name = {item.nodeid: item for item in items}
        chosen = [by_name[name] for name in names if name in by_name]
        found.append(first_failure(chosen) if chosen else (None, ""))

    try:
        collect(sorted({name.split("::")[0] for name in names}), then)
    except SystemExit as problem:
        return "collection", str(problem)[-2_000:]
    return found[0]


def lines_run(item: pytest.Item, files: dict[str, int]) -> dict[str, Any]:
    """Run a test and watch which lines of `files` (path to number) it runs."""
    seen: set[tuple[int, int]] = set()

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            seen.add((files[frame.f_code.co_filename], frame.f_lineno))
        return local

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        seen.add((files[frame.f_code.co_filename], frame.f_lineno))
        return local

    trace.__module__ = "threading"  # own modules' tests refuse what others put there
    threading.settrace(trace)
    began = time.process_time()
    sys.settrace(trace)
    failed, said = first_failure([item])
    sys.settrace(None)
    found: dict[int, list[int]] = {}
    for file, line in sorted(seen):
        found.setdefault(file, []).append(line)
    took = time.process_time() - began
    return {"lines": found, "seconds": took, "failed": failed, "said": said}

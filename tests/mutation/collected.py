"""A pytest session that collects the tests once and then runs some of them in forked
children.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict

import pytest

# What a fork's parent has imported already is not rewritten, and need not be.
_QUIET = (
    *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-p", "no:faulthandler", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class Failures:
    """Which tests of this process failed."""

    def __init__(self):
        self.names = []
        self.said = ""

    def pytest_runtest_logreport(self, report):
        """Once for setup, call and teardown each."""
        if report.failed:
            self.names.append(report.nodeid)
            self.said = str(report.longrepr)[-2_000:]


class Collected:
    """Calls `then` with the collected tests instead of running them."""

    def __init__(self, then):
        self._then = then
        self.errors = []

    def pytest_collectreport(self, report):
        """A file that cannot be collected must not pass in silence."""
        if report.failed:
            self.errors.append(f"{report.nodeid}: {report.longrepr}")

    def pytest_runtestloop(self, session):
        self._then(session.items)
        return True


def collect(names, then):
    """Collect the tests of files and folders, and hand them over; SystemExit where one
    fails.
    """
    plugin = Collected(then)
    code = pytest.main([*_QUIET, *names], plugins=[plugin])
    if plugin.errors or code not in (0, 5):
        raise SystemExit("\n".join(plugin.errors) or f"pytest ended with {code}")


def first_failure(items):
    """Run tests until one fails; its name, and what it said."""
    failures = Failures()
    items[0].config.pluginmanager.register(failures)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.names:
            return failures.names[0], failures.said
    return None, ""


def first_failure_of(names):
    """The same in a process that has collected nothing yet; an error of collection
    counts.
    """
    found = []

    def then(items):
        by_name = {item.nodeid: item for item in items}
        chosen = [by_name[name] for name in names if name in by_name]
        found.append(first_failure(chosen) if chosen else (None, ""))

    try:
        collect(sorted({name.split("::")[0] for name in names}), then)
    except SystemExit as problem:
        return "collection", str(problem)[-2_000:]
    return found[0]


def lines_run(item, files):
    """Run a test: which lines of `files` (path to name) it runs, by the name, and its
    seconds of processor time; or what it said where it failed.
    """
    seen = defaultdict(set)

    def local(frame, event, arg):
        if event == "line":
            seen[files[frame.f_code.co_filename]].add(frame.f_lineno)
        return local

    def trace(frame, event, arg):
        if frame.f_code.co_filename not in files:
            return None
        return local(frame, "line", arg)

    trace.__module__ = "threading"  # own modules' tests refuse what others put there
    threading.settrace(trace)
    began = time.process_time()
    sys.settrace(trace)
    failed, said = first_failure([item])
    sys.settrace(None)
    if failed:
        return said
    return {name: sorted(at) for name, at in seen.items()}, time.process_time() - began

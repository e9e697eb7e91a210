"""Settings of all tests: property-based tests draw the same examples each time, and the
variables that a terminal, a proxy or another project has set are no part of the
environment.
"""

import gc
import os
import re
import socket
import sys

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# Read by typer and rich (also as they are imported), by HTTP clients, and by this
# package.
_FROM_OUTSIDE = re.compile(
    r"COLUMNS|LINES|TERMINAL_WIDTH|TTY_\w+|(FORCE|NO|PY)_?COLORS?|GITHUB_ACTIONS"
    r"|(HTTPS?|ALL|NO)_PROXY|(HF_HUB|TRANSFORMERS)_OFFLINE|MLFLOW_\w+"
    r"|RAY_(ADDRESS|AUTH_MODE|TMPDIR)|SWEEP_(HOME|CACHE_DIR|TRACKING)|PYTHONDONTWRITEBYTECODE",
    re.IGNORECASE,
)
for name in filter(_FROM_OUTSIDE.fullmatch, list(os.environ)):
    del os.environ[name]
# Rewriting the assertions of all files costs each process eight seconds, unless it is
# kept.
sys.dont_write_bytecode = False
# Read when Ray is imported, as some tests do.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

# Files of more than half a minute begin first: at the end, one of them would leave a
# core idle.
_LONG = re.compile(r"test_(shipped_spaces|ray_\w+|sealed_on_ray)\.py")


def pytest_collection_modifyitems(items):
    """Order the files, whose tests stay as they are."""
    items.sort(key=lambda item: _LONG.fullmatch(item.path.name) is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: a third of the time would go into looking for garbage in
    it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(
            50_000, 20, 20
        )  # as often as by default costs a twentieth of the time
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for doctests only where there are some, which halves the time of a
    collection.
    """
    found = yield
    kept = [each for each in found if type(each).__name__ != "DoctestModule"]
    return found if kept == found or ">>>" in file_path.read_text() else kept


@pytest.fixture
def silent_port():
    """A port of this machine at which nothing listens, nor can begin to: it is held."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]

"""The addresses at which Ray's agents on this machine serve metrics, for Prometheus.

Ray keeps a list for each session and links the newest one only, so that of two concurrent sweeps
one would not be scraped, and none while a new session is starting. Here the lists of all sessions
that answer are combined.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.store.files import write_text
from trainables.documents import read_written_json
from trainables.errors import InvalidData

_LIST = "prom_metrics_service_discovery.json"
_SECONDS = 5.0


def ray_folder() -> Path:
    """The folder of Ray's sessions."""
    return Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray"


def targets(folder: Path) -> list[str]:
    """host:port of every agent that listens, sorted; unreadable lists are ignored."""
    found: set[str] = set()
    for path in folder.glob(f"session_*/{_LIST}"):
        try:
            groups = read_written_json(path)
            found |= {str(target) for group in groups for target in group["targets"]}
        except (InvalidData, KeyError, TypeError):
            continue
    return sorted(target for target in found if _listens(target))


def write(path: Path, folder: Path) -> None:
    """Write the list that Prometheus reads."""
    groups = [{"labels": {"job": "ray"}, "targets": targets(folder)}]
    write_text(path, json.dumps(groups) + "\n")


@contextmanager
def follow_targets(
    path: Path, *, folder: Path | None = None, seconds: float = _SECONDS
) -> Iterator[Path]:
    """`path` with the current targets, rewritten every `seconds` until the block ends."""
    place = folder or ray_folder()
    over = threading.Event()

    def follow() -> None:
        while not over.wait(seconds):
            write(path, place)

    write(path, place)
    thread = threading.Thread(target=follow, name="ray-targets", daemon=True)
    thread.start()
    try:
        yield path
    finally:
        over.set()
        thread.join()


def _listens(target: str) -> bool:
    host, _, port = target.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=0.3):
            return True
    except (OSError, ValueError):
        return False

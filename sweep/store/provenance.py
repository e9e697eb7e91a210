"""The provenance of a sweep's results beside its space: the command, the code, the versions."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from sweep.settings import hide_passwords

_PACKAGES = ("dp-nlu-sweep", "torch", "ray", "mlflow", "numpy", "dp-accounting", "transformers")


def about(command: Sequence[str]) -> dict[str, Any]:
    """The provenance of a sweep as plain data; exports and reports have it."""
    return {
        "command": [hide_passwords(word) for word in command],
        "git_commit": _git_commit(),
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "machine": platform.machine(),
    }


def _git_commit() -> str | None:
    """The commit of this code, where it runs from a checkout.

    An installed package may be inside another repository (a virtual environment in a user's
    project), whose commit is not that of this code.
    """
    here = Path(__file__)
    return _git(here, "rev-parse", "HEAD") if _git(here, "ls-files", here.name) else None


def _git(here: Path, *words: str) -> str | None:
    try:
        found = subprocess.run(
            ["git", *words],
            cwd=here.parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


def _versions() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue

"""Privacy figures that were worked out before, kept between commands: a space that is planned again
needs no accounting library.

A line of the file is a figure under the hash of all that it depends on: the mechanism, what was
asked of it, and the code that answers. What cannot be read is worked out again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import trainables
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.summary import PrivacySummary

_FILE = "figures.jsonl"
_MOST_BYTES = 20_000_000  # then the file is begun anew
_LIBRARIES = ("dp-accounting", "numpy", "scipy")
_TUPLES = ("effective_noise_multiplier", "unaccounted", "warnings")


@dataclass(frozen=True)
class Figures:
    """A mechanism's noise multiplier, calibrated where it was asked for, and its summary."""

    noise_multiplier: float
    summary: PrivacySummary


class FigureCache:
    """The figures kept in a folder; it is made when the first is written."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE

    def find(self, key: str) -> Figures | None:
        """What was kept under a key."""
        found = self._known.get(key)
        if found is None:
            return None
        summary: dict[str, Any] = {**found["summary"]}
        summary |= {name: tuple(summary[name]) for name in _TUPLES}
        return Figures(found["noise_multiplier"], PrivacySummary(**summary))

    def keep(self, key: str, figures: Figures) -> None:
        """Add figures. A folder that cannot be written to keeps nothing."""
        fields = {"noise_multiplier": figures.noise_multiplier, "summary": asdict(figures.summary)}
        self._known[key] = fields
        line = json.dumps({"key": key, **fields}) + "\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            if self._path.exists() and self._path.stat().st_size > _MOST_BYTES:
                mode |= os.O_TRUNC
            descriptor = os.open(self._path, mode, 0o600)
            with os.fdopen(descriptor, "ab", buffering=0) as file:
                file.write(line.encode())  # at once: commands may write side by side

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        known: dict[str, dict[str, Any]] = {}
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return known
        for line in lines:
            try:
                row = json.loads(line)
                known[row["key"]] = {name: row[name] for name in ("noise_multiplier", "summary")}
            except (ValueError, TypeError, KeyError):
                continue  # cut by a crash: it is worked out again
        return known


def key_of(mechanism: Mechanism, **asked: Any) -> str:
    """The hash of a mechanism, of what is `asked` of it (plain data), and of the code."""
    document = {"mechanism": asdict(mechanism), "asked": asked, "code": _code()}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """The hash of whatever a figure is worked out by."""
    digest = hashlib.sha256()
    assert trainables.__file__ is not None
    home = Path(trainables.__file__).parent
    for path in sorted([*home.glob("accountants/*.py"), *home.glob("privacy/[ms]*.py")]):
        digest.update(path.read_bytes())
    for library in _LIBRARIES:
        digest.update(metadata.version(library).encode())
    return digest.hexdigest()

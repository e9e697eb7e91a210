"""Lists and removes the content of $SWEEP_CACHE_DIR, which can be rebuilt from the corpora."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from sweep.store import sweeps
from trainables.errors import InvalidInput

# Prefixes of names and the content of the files or folders; the others are corpora and locks.
_KINDS = {
    "parser-": "a parser with the words of its training pairs",
    "programs-": "programs of private utterances",
    "rows-": "features of private utterances",
    "shadows": "predictions of shadow models for private records",
    "figures": "computed epsilons; no private text",
}
_CORPUS = "a corpus: its distinct words, tokens and labels"
_UNKNOWN = "unknown; treated as private"


@dataclass(frozen=True, kw_only=True)
class Cached:
    """A file or folder of the cache, a description of its content, and its size in `bytes`."""

    path: Path
    holds: str
    bytes: int


def cache_entries(cache_dir: Path) -> list[Cached]:
    """All content of the cache except locks, sorted by name; none without the folder."""
    if not cache_dir.is_dir():
        return []
    places = sorted(path for path in cache_dir.iterdir() if path.suffix != ".lock")
    return [Cached(path=path, holds=_holds(path), bytes=_size(path)) for path in places]


def remove(found: list[Cached], *, home: Path) -> None:
    """Remove these files and folders.

    Raises: InvalidInput while a sweep of `home` runs, because its trials read them.
    """
    for name in sweeps.names(home):
        if sweeps.open_sweep(home, name).is_running:
            raise InvalidInput(f"sweep {name} is running and reads the cache: stop it first")
    for entry in found:
        if entry.path.is_dir() and not entry.path.is_symlink():
            shutil.rmtree(entry.path)
        else:
            entry.path.unlink(missing_ok=True)


def _holds(path: Path) -> str:
    for beginning, what in _KINDS.items():
        if path.name.startswith(beginning):
            return what
    return _CORPUS if (path / "corpus.json").exists() else _UNKNOWN


def _size(path: Path) -> int:
    if path.is_file() or path.is_symlink():
        return path.lstat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if not each.is_dir())

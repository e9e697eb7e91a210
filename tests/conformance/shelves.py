"""A temporary shelf: a file dropped beside the entries of one is found by its name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainables import catalogue

DropIn = Callable[[str, str, str], None]


def forget_names() -> None:
    """Let shelves be looked at anew."""
    for kept in (catalogue._names, catalogue.constant, catalogue.marked_entry):
        kept.cache_clear()


@pytest.fixture
def drop_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DropIn]:
    """`drop_in(shelf, name, text)` puts one new file on a shelf, for one test."""
    added: list[str] = []

    def add(shelf: str, name: str, text: str) -> None:
        whole = catalogue._package(shelf)
        folder = tmp_path / "shelves" / shelf
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(text)
        package = importlib.import_module(whole)
        if str(folder) not in package.__path__:
            places = [*package.__path__, str(folder)]
            monkeypatch.setattr(package, "__path__", places)
            monkeypatch.setattr(package.__spec__, "submodule_search_locations", places)
        added.append(f"{whole}.{name}")
        importlib.invalidate_caches()
        forget_names()

    yield add
    monkeypatch.undo()
    forget_names()
    for name in added:
        sys.modules.pop(name, None)

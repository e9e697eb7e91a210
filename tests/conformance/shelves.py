"""A temporary entry: one file beside those of a shelf, and one line in the shelf's
list.
"""

import importlib
import sys
from typing import get_args

import pytest

from trainables import catalogue
from trainables.config.trial import REGISTRIES, TrialConfig, union_of


def read_lists_anew():
    """Let a config be of the entries that are listed now, as in a new process."""
    for section in REGISTRIES:
        TrialConfig.__pydantic_fields__[section].annotation = get_args(
            union_of(section)
        )[0]
    TrialConfig.model_rebuild(force=True)


@pytest.fixture
def drop_in(tmp_path, monkeypatch):
    """`drop_in(registry, name, text, kind)` adds one component to a registry, for one
    test. Where a registry lists classes, `kind` is the name of the class in `text`.
    """
    added = []

    def add(shelf, name, text, kind=None):
        package = catalogue.package_of(shelf)
        folder = tmp_path / "shelves" / shelf
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        listed = package.ENTRIES
        added.append(f"{package.__name__}.{name}")
        importlib.invalidate_caches()
        if isinstance(listed, dict) and ":" in str(next(iter(listed.values()))):
            kind = f"{name}:{kind}"
        line = {**listed, name: kind} if isinstance(listed, dict) else (*listed, name)
        monkeypatch.setattr(package, "ENTRIES", line)
        read_lists_anew()

    yield add
    monkeypatch.undo()
    read_lists_anew()
    for name in added:
        sys.modules.pop(name, None)

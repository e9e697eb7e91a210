"""The folder is the registry: a file in a shelf is an entry, its name is the name in a config."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from types import ModuleType

from trainables.errors import InvalidInput

_HOUSE = "trainables"


def names(shelf: str) -> tuple[str, ...]:
    """Names of all entries of a shelf, sorted, without importing any of them.

    `shelf` is a folder of this package, for example "models" or "accountants". Files whose name
    starts with an underscore are no entries.
    """
    spec = importlib.util.find_spec(f"{_HOUSE}.{shelf}")
    if spec is None or spec.submodule_search_locations is None:
        raise InvalidInput(f"expected shelf to be a folder of {_HOUSE}, got shelf={shelf!r}")
    found = pkgutil.iter_modules(list(spec.submodule_search_locations))
    return tuple(sorted(module.name for module in found if not module.name.startswith("_")))


def entry(shelf: str, name: str) -> ModuleType:
    """The module of one entry.

    Raises: InvalidInput naming the shelf, the name and every allowed name.
    """
    allowed = names(shelf)
    if name not in allowed:
        raise InvalidInput(f"expected {shelf} to be one of {', '.join(allowed)}, got {name!r}")
    return importlib.import_module(f"{_HOUSE}.{shelf}.{name}")

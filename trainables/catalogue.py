"""The folder is the registry: a file in a shelf is an entry, its name is the name in a config."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from pydantic import ValidationInfo
from pydantic_core import CoreSchema, core_schema

from trainables.errors import InvalidInput

_HOUSE = "trainables"


def names(shelf: str, *, kind: str | None = None) -> tuple[str, ...]:
    """Names of all entries of a shelf, sorted, without importing any of them.

    `shelf` is a folder of this package, for example "models" or "accountants", or with dots a
    package by its whole name. Files whose name
    starts with an underscore are no entries. With `kind` only the entries whose `KIND` it is.
    """
    found = _names(shelf)
    return found if kind is None else tuple(n for n in found if kind_of(shelf, n) == kind)


@cache
def constant(shelf: str, name: str, constant: str) -> str | None:
    """A module constant of an entry that is a word, read from its text; None where it has none.

    >>> constant("tasks", "synthesis", "DATASETS")
    'pairs'
    """
    found = re.search(rf"""^{constant} = ["'](\w+)["']""", text_of(shelf, name), flags=re.MULTILINE)
    return found[1] if found else None


def kind_of(shelf: str, name: str) -> str | None:
    """The module constant `KIND` of an entry, read from its text; None where it has none.

    Entries of one shelf with different kinds have different protocols. Reading the text avoids
    importing the entry's dependencies.

    >>> kind_of("datasets", "atis")
    'frames'
    """
    return constant(shelf, name, "KIND")


def text_of(shelf: str, name: str) -> str:
    """The text of an entry, read without importing it; empty where there is none."""
    spec = importlib.util.find_spec(f"{_package(shelf)}.{name}")
    source = getattr(spec and spec.loader, "get_source", None)
    return (source(f"{_package(shelf)}.{name}") or "") if source else ""


@cache
def marked_entry(shelf: str, mark: str) -> str:
    """The one entry of a shelf whose text has the line `MARK = True`, found without importing it.

    `DEFAULT` marks the entry that is taken where none is named.

    >>> marked_entry("datasets", "DEFAULT")
    'atis'
    """
    line = re.compile(rf"^{mark} = True$", re.MULTILINE)
    (found,) = (name for name in _names(shelf) if line.search(text_of(shelf, name)))
    return found


def _package(shelf: str) -> str:
    return shelf if "." in shelf else f"{_HOUSE}.{shelf}"


@cache
def _names(shelf: str) -> tuple[str, ...]:
    spec = importlib.util.find_spec(_package(shelf))
    if spec is None or spec.submodule_search_locations is None:
        raise InvalidInput(f"expected shelf to be a folder of {_HOUSE}, got shelf={shelf!r}")
    found = pkgutil.iter_modules(list(spec.submodule_search_locations))
    return tuple(sorted(module.name for module in found if not module.name.startswith("_")))


def entry(shelf: str, name: str, *, kind: str | None = None) -> ModuleType:
    """The module of one entry, of one `kind` where that is given.

    Raises: InvalidInput naming the shelf, the name and every allowed name.
    """
    allowed = names(shelf, kind=kind)
    if name not in allowed:
        what = shelf.rpartition(".")[2]
        raise InvalidInput(f"expected {what} to be one of {', '.join(allowed)}, got {name!r}")
    return importlib.import_module(f"{_package(shelf)}.{name}")


@dataclass(frozen=True)
class NameOf:
    """Annotation of a field whose values are names of a shelf's entries, of one `kind` if given."""

    shelf: str
    kind: str | None = None

    def names(self) -> tuple[str, ...]:
        """The allowed values."""
        return names(self.shelf, kind=self.kind)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], CoreSchema]
    ) -> CoreSchema:
        def check(value: str, info: ValidationInfo) -> str:
            if value not in self.names():
                allowed = ", ".join(self.names())
                raise ValueError(
                    f"expected {info.field_name} to be one of {allowed}, got {value!r}"
                )
            return value

        return core_schema.with_info_after_validator_function(check, handler(source))

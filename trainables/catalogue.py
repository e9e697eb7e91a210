"""The shelves: a plural folder whose `ENTRIES` list its files, which are named in
configs.

`ENTRIES` is a tuple of names, or a mapping from names to what is known of them without
importing them: their kind, or a `Task`. `DEFAULT` is the entry that is taken where none
is named.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import ValidationInfo
from pydantic_core import CoreSchema, core_schema

from trainables.errors import InvalidInput

# Registries that stand inside another package.
_PACKAGES = {
    "accountants": "trainables.dp.accounting.accountants",
    "datasets": "trainables.data.datasets",
    "engines": "trainables.dp.engines",
    "learning_rates": "trainables.dp.learning_rates",
    "optimizers": "trainables.dp.optimizers",
    "schedules": "trainables.dp.schedules",
}


@cache
def package_of(registry: str) -> ModuleType:
    """The package of a shelf: by its name ("models"), or with dots a whole name."""
    package = registry if "." in registry else f"trainables.{registry}"
    return import_module(_PACKAGES.get(registry, package))


def names(registry: str, *, kind: str | None = None) -> tuple[str, ...]:
    """Names of the entries of a shelf, of one `kind` where that is given, sorted."""
    entries: Collection[str] = package_of(registry).ENTRIES
    return tuple(
        sorted(n for n in entries if kind is None or kind_of(registry, n) == kind)
    )


def about(registry: str, name: str) -> Any:
    """What the shelf's list says of an entry; None where it says nothing or there is
    none.
    """
    entries = package_of(registry).ENTRIES
    return entries.get(name) if isinstance(entries, dict) else None


def kind_of(registry: str, name: str) -> str | None:
    """The kind of an entry. Entries of one shelf with different kinds have different
    protocols.

    >>> kind_of("datasets", "atis")
    'frames'
    """
    found = about(registry, name)
    return found if isinstance(found, str) else None


def default(registry: str) -> str:
    """The entry of a shelf that is taken where none is named.

    >>> default("datasets")
    'atis'
    """
    return str(package_of(registry).DEFAULT)


def entry(registry: str, name: str, *, kind: str | None = None) -> ModuleType:
    """The module of one entry, of one `kind` where that is given.

    Raises: InvalidInput naming the shelf, the name and every allowed name.
    """
    allowed = names(registry, kind=kind)
    if name not in allowed:
        what = registry.rpartition(".")[2]
        raise InvalidInput(
            f"expected {what} to be one of {', '.join(allowed)}, got {name!r}"
        )
    return import_module(f"{package_of(registry).__name__}.{name}")


@dataclass(frozen=True)
class NameOf:
    """Annotation of a field whose values are names of a shelf's entries."""

    registry: str

    def names(self) -> tuple[str, ...]:
        """The allowed values."""
        return names(self.registry)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        def check(value: str, info: ValidationInfo) -> str:
            allowed = self.names()
            if value in allowed:
                return value
            words = f"expected {info.field_name} to be one of {', '.join(allowed)}, got {value!r}"
            raise ValueError(words)

        return core_schema.with_info_after_validator_function(check, handler(source))

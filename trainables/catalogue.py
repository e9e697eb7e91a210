"""Registries: a package with a plural name whose `ENTRIES` list its components, which
configs name.

`ENTRIES` is a tuple of names, or a mapping from names to what is known of them without
importing them: "module:class" in the package, for a component that is a class, as
configs and plans see it; the kind of a component that is a module; or a `Task`. A
module has the name of its component. `DEFAULT` is the component that is taken where a
config names none.
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
    """The package of a registry, imported: by its name ("models"), or by its whole
    dotted name for one outside `trainables` ("search_spaces.strategies").
    """
    package = registry if "." in registry else f"trainables.{registry}"
    return import_module(_PACKAGES.get(registry, package))


def names(registry: str, *, kind: str | None = None) -> tuple[str, ...]:
    """Names of the components of a registry, of one `kind` where that is given,
    sorted.
    """
    entries: Collection[str] = package_of(registry).ENTRIES
    return tuple(
        sorted(n for n in entries if kind is None or kind_of(registry, n) == kind)
    )


def about(registry: str, name: str) -> Any:
    """What `ENTRIES` says of a component: the place of its class, its kind or its
    `Task`; None where it says nothing or there is no such component.
    """
    entries = package_of(registry).ENTRIES
    return entries.get(name) if isinstance(entries, dict) else None


def kind_of(registry: str, name: str) -> str | None:
    """The kind of a component, None for an unknown one and in a registry without kinds.
    Components of one registry with different kinds have different abilities.

    >>> kind_of("accountants", "pld"), kind_of("datasets", "unknown")
    ('guarantee', None)
    """
    component = _class_of(registry, name)
    if component is not None:
        return str(component.kind)
    listed = about(registry, name)
    return listed if isinstance(listed, str) else None


def default(registry: str) -> str:
    """The name of the component that a config has where it names none.

    >>> default("datasets")
    'atis'
    """
    return str(package_of(registry).DEFAULT)


def entry(registry: str, name: str, *, kind: str | None = None) -> Any:
    """A component, of one `kind` where that is given: the class that the registry
    lists, or else the module of that name, imported. Its abilities are those of the
    class's base, or those of CONTRIBUTING's table.

    Raises: InvalidInput naming the registry, the name and every allowed name.
    """
    allowed = names(registry, kind=kind)
    if name not in allowed:
        what = registry.rpartition(".")[2]
        raise InvalidInput(
            f"expected {what} to be one of {', '.join(allowed)}, got {name!r}"
        )
    package = package_of(registry).__name__
    return _class_of(registry, name) or import_module(f"{package}.{name}")


@cache
def _load_in(package: str, place: str) -> Any:
    return load(f"{package}.{place}")


def _class_of(registry: str, name: str) -> Any:
    """The component where it is a class; None for a module."""
    listed = about(registry, name)
    if not isinstance(listed, str) or ":" not in listed:
        return None
    return _load_in(package_of(registry).__name__, listed)


def load(path: str) -> Any:
    """The object that "module:name" stands for; its module is imported now. By this a
    component without torch names the class that does its work.

    >>> load("trainables.catalogue:default") is default
    True
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class NameOf:
    """Annotation of a pydantic field whose values are names of a registry's components:
    another name is refused in one sentence with the allowed ones. The names are read at
    each check, so that a component which is registered later is allowed too; importing
    the config loads none of them.
    """

    registry: str

    def names(self) -> tuple[str, ...]:
        """The allowed values, sorted."""
        return names(self.registry)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        def check(value: str, info: ValidationInfo) -> str:
            allowed = self.names()
            if value in allowed:
                return value
            words = f"expected {info.field_name} to be one of {', '.join(allowed)}, got {value!r}"
            raise ValueError(words)

        return core_schema.with_info_after_validator_function(check, handler(source))

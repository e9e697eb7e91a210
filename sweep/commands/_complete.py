"""Shell completion of names of sweeps, spaces and fields; it never raises an error."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def sweeps(incomplete: str) -> list[str]:
    """Names of sweeps in $SWEEP_HOME."""
    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from trainables.errors import SweepError

    with suppress(SweepError, OSError):
        return _beginning(store.names(from_environment().home), incomplete)
    return []


def spaces(incomplete: str) -> list[str]:
    """Names of the shipped spaces, and YAML files and folders where a path leads."""
    from search_spaces.files import shipped_spaces

    folder, _, beginning = incomplete.rpartition("/")
    with suppress(OSError):
        here = Path(folder + "/") if incomplete.startswith("/") else Path(folder or ".")
        found = [
            f"{folder}/{each.name}" if "/" in incomplete else each.name
            for each in here.iterdir()
            if each.suffix in (".yaml", ".yml")
        ]
        inner = [] if "/" in incomplete or not beginning else _folders(here, beginning)
        return _beginning([*shipped_spaces(), *sorted(found), *inner], incomplete)
    return _beginning(shipped_spaces(), incomplete)


def fields(incomplete: str) -> list[str]:
    """Paths of fields of configs and spaces."""
    from sweep.planning.fields import fields_below

    return _beginning(dict.fromkeys(row.path for row in fields_below(None)), incomplete)


def assignments(incomplete: str) -> list[str]:
    """PATH= of every field; PATH=VALUE where a field has few values and the path is whole."""
    from sweep.planning.fields import fields_below

    rows = {row.path: row.allowed for row in fields_below(None)}
    path = incomplete.partition("=")[0]
    found = [f"{each}=" for each in rows if each != path]
    values = rows.get(path, "").split(", ")[-1].split(" | ")
    if path in rows:
        found += [f"{path}={value}" for value in (values if len(values) > 1 else [""])]
    return _beginning(found, incomplete)


def _folders(here: Path, beginning: str) -> list[str]:
    return [f"{p.name}/" for p in here.iterdir() if p.is_dir() and p.name.startswith(beginning)]


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]

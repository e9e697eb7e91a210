"""Every field of configs and spaces: path, type, default, range and meaning.

The list is derived from the classes that parse them, so it cannot differ from the accepted fields.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from search_spaces.paths import is_within
from search_spaces.space import SearchSpace
from trainables import catalogue
from trainables.catalogue import NameOf
from trainables.config import SHELVES, TAGS, TrialConfig, kinds_of
from trainables.documents import nearest_name
from trainables.errors import InvalidInput
from trainables.frozen import Frozen

_NAMES: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "true | false"}
_BOUNDS = (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))


@dataclass(frozen=True)
class FieldRow:
    """One field. `entries` names the entries of the section's shelf that have it; empty: all."""

    path: str
    type: str
    default: str
    allowed: str
    description: str
    entries: tuple[str, ...] = ()


def config_fields() -> tuple[FieldRow, ...]:
    """The fields of a trial's config, in the order of its sections."""
    rows: list[FieldRow] = []
    for name, info in TrialConfig.model_fields.items():
        if name in SHELVES and name != "training":
            rows += _of_shelf(name)
        else:
            rows += _rows(name, info)
    return tuple(rows)


def space_fields() -> tuple[FieldRow, ...]:
    """The fields of a search space beside the config in its `base`."""
    return tuple(
        row for name, info in SearchSpace.model_fields.items() for row in _rows(name, info)
    )


def fields_below(path: str | None) -> tuple[FieldRow, ...]:
    """The fields of configs and spaces at or below `path`; None: all.

    Raises: InvalidInput for an unknown path, with the nearest one.
    """
    rows = (*config_fields(), *space_fields())
    if path is None:
        return rows
    found = tuple(row for row in rows if is_within(row.path, path))
    if not found:
        raise InvalidInput(f"expected PATH to be a field{_hint(path, rows)}")
    return found


def _hint(path: str, rows: tuple[FieldRow, ...]) -> str:
    known = {row.path for row in rows} | {row.path.split(".")[0] for row in rows}
    tails = {each.rpartition(".")[2]: each for each in sorted(known, reverse=True)}
    tail = nearest_name(path.rpartition(".")[2], tails)
    if near := nearest_name(path, known) or (tail and tails[tail]):
        return f", got {path!r}: did you mean {near}?"
    return f" (sections: {', '.join(sorted({each.split('.')[0] for each in known}))}), got {path!r}"


def _of_shelf(section: str) -> list[FieldRow]:
    """The fields of all entries that can own the section, each once."""
    shelf = SHELVES[section]
    kinds = kinds_of(shelf)
    names = [
        name
        for name in catalogue.names(shelf)
        if not kinds or catalogue.kind_of(shelf, name) in kinds
    ]
    have: dict[FieldRow, list[str]] = {}
    for name in names:
        own: type[Frozen] = catalogue.entry(shelf, name).Config
        for field in own.fields():
            path = f"{section}.{field}"
            if path == TAGS[section]:
                continue
            for row in _rows(path, own.model_fields[field]):
                meant = row if row.description else replace(row, description=_meaning(own, field))
                have.setdefault(meant, []).append(name)
    # A section whose entry is named outside of it has a row for that field.
    first = FieldRow(TAGS[section], "text", "-", " | ".join(names), f"entry of {shelf}")
    tag = [first] if TAGS[section].startswith(f"{section}.") else []
    rows = [
        FieldRow(
            **{
                **vars(row),
                "entries": () if len(owners) == len(names) else tuple(owners),
            }
        )
        for row, owners in have.items()
    ]
    return tag + sorted(rows, key=lambda row: row.path)


def _meaning(own: type[Frozen], field: str) -> str:
    """The meaning of a field whose default alone an entry changes: that of the section."""
    for parent in own.__mro__:
        info = getattr(parent, "model_fields", {}).get(field)
        if info is not None and info.description:
            return " ".join(info.description.split())
    return ""


def _rows(path: str, info: FieldInfo) -> Iterator[FieldRow]:
    """The row of a field, or the rows of its parts."""
    parts = [part for part in _options(info.annotation) if _is_part(part)]
    plain = [part for part in _options(info.annotation) if not _is_part(part)]
    if plain or not parts:
        yield FieldRow(
            path=path,
            type=" | ".join(dict.fromkeys(_type(part) for part in plain)) or "text",
            default=_default(info),
            allowed=_constraints_of(info, plain),
            description=" ".join((info.description or "").split()),
        )
    for part in parts:
        for name, inner in part.model_fields.items():
            yield from _rows(f"{path}.{name}", inner)


def _options(annotation: Any) -> list[Any]:
    """The alternatives of a type, without None and without annotations."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [each for part in get_args(annotation) for each in _options(part)]
    if hasattr(annotation, "__metadata__"):
        return _options(annotation.__origin__)
    return [] if annotation is type(None) else [annotation]


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return "choice"
    if origin in (tuple, list):
        inner = [each for each in get_args(annotation) if each is not Ellipsis]
        names = dict.fromkeys(_type(o) for each in inner for o in _options(each))
        return f"list of {' | '.join(names)}"
    if dict in (origin, annotation) or _is_part(annotation):
        return "mapping"
    return _NAMES.get(annotation, "value")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.default
    if value is PydanticUndefined or info.default_factory is not None or _is_part(type(value)):
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return "-" if value is None or value == () else str(value)


def _constraints_of(info: FieldInfo, options: list[Any]) -> str:
    rules = [
        f"{sign} {getattr(each, name)}"
        for each in info.metadata
        for name, sign in _BOUNDS
        if getattr(each, name, None) is not None
    ]
    rules += [" | ".join(each.names()) for each in info.metadata if isinstance(each, NameOf)]
    for option in options:
        if get_origin(option) is Literal:
            rules.append(" | ".join(str(value) for value in get_args(option)))
    return ", ".join(rules)

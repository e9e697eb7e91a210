"""What every `--json` prints: fields, types, meanings and a version, read from `_schemas.yaml`.

A path names the fields of a document: `a.b`, `a[].b` of each item of a list, `a.*` of every key of
a mapping whose keys are data. A type is one or more of text, integer, number, truth, null and any.
Infinity is the text "inf" and belongs to `number`. A list or mapping may be null. A `?` behind a
path: the field may be absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("_schemas.yaml")
_NAMES: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("truth", bool),
    ("integer", int),
    ("number", float),
    ("text", str),
    ("null", type(None)),
)


@dataclass(frozen=True)
class Field:
    """One field of a document."""

    path: str
    types: tuple[str, ...]
    is_optional: bool
    meaning: str


@dataclass(frozen=True)
class Schema:
    """The fields of one document. `version` rises when a field goes or means something else."""

    name: str
    version: int
    about: str
    fields: tuple[Field, ...]

    def problems(self, document: Mapping[str, Any]) -> list[str]:
        """What of a document (without its key `schema`) is not as it is written here."""
        known = {field.path: field for field in self.fields}
        found = list(_unknown(document, known, ""))
        return found + [
            f"{field.path} is missing"
            for field in self.fields
            if not field.is_optional and not _is_there(document, field.path)
        ]


def names() -> tuple[str, ...]:
    """Every document, by the command that prints it."""
    return tuple(_read()["documents"])


@cache
def schema(name: str) -> Schema:
    """The schema of a document."""
    whole = _read()
    given = whole["documents"][name]
    fields = []
    for path, types in given["fields"].items():
        bare = path.removesuffix("?")
        last = bare.replace("[]", "").removesuffix(".*").rpartition(".")[2]
        fields.append(
            Field(
                path=bare,
                types=tuple(types.split(" | ")),
                is_optional=path.endswith("?"),
                meaning=given.get("meanings", {}).get(bare) or whole["meanings"].get(last, ""),
            )
        )
    return Schema(name, given["version"], given["about"], tuple(fields))


@cache
def _read() -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return found


def _unknown(value: Any, known: Mapping[str, Field], path: str) -> Iterator[str]:
    """Fields of a value that no path names, and values of another type."""
    field = known.get(path)
    if field is not None and "any" in field.types:
        return
    if value is None and field is None and _leads(path, known):
        return  # a list or a mapping that is not there
    if isinstance(value, dict):
        for key, inner in value.items():
            below = f"{path}.{key}" if path else str(key)
            free = f"{path}.*" if path else "*"
            is_free = not _leads(below, known) and _leads(free, known)
            yield from _unknown(inner, known, free if is_free else below)
    elif isinstance(value, list):
        for inner in value:
            yield from _unknown(inner, known, f"{path}[]")
    elif field is None:
        yield f"{path} is not written down"
    elif not _fits(value, field.types):
        yield f"{path} is {value!r}, expected {' | '.join(field.types)}"


def _leads(path: str, known: Mapping[str, Field]) -> bool:
    """Whether a path is one of those known, or the beginning of one."""
    return any(each == path or each.startswith((f"{path}.", f"{path}[")) for each in known)


def _fits(value: Any, types: tuple[str, ...]) -> bool:
    if value in ("inf", "-inf") and "number" in types:
        return True
    is_a = next(name for name, kind in _NAMES if isinstance(value, kind))
    return is_a in types or (is_a == "integer" and "number" in types)


def _is_there(document: Any, path: str) -> bool:
    """Whether a document has a field: in every item of lists, in any key of free mappings."""
    head, _, rest = path.partition(".")
    is_list = head.endswith("[]")
    key = head.removesuffix("[]")
    if key == "*":
        return True
    if not isinstance(document, dict) or key not in document:
        return False
    value = document[key]
    if value is None or not rest:
        return True
    inner = value if is_list else [value]
    return isinstance(inner, list) and all(_is_there(each, rest) for each in inner)

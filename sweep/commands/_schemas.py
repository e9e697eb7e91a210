"""What every `--json` prints: fields, types, meanings and a version, read from
`_schemas.yaml`.

A path names the fields of a document: `a.b`, `a[].b` of each item of a list, `a.*` of
every key of a mapping whose keys are data. A type is one or more of text, integer,
number, truth, null and any. Infinity is the text "inf" and belongs to `number`. A list
or mapping may be null. A `?` behind a path: the field may be absent.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("_schemas.yaml")


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
                meaning=given.get("meanings", {}).get(bare)
                or whole["meanings"].get(last, ""),
            )
        )
    return Schema(name, given["version"], given["about"], tuple(fields))


@cache
def _read() -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return found

"""Every field of configs and spaces: path, type, default, range and meaning.

The list is derived from the classes that parse them, so it cannot differ from the
accepted fields.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from search_spaces.paths import is_within
from search_spaces.space import SearchSpace
from trainables import catalogue
from trainables.catalogue import NameOf
from trainables.config.trial import REGISTRIES, TAGS, TrialConfig, class_of
from trainables.errors import InvalidInput, nearest_name
from trainables.fields import ReadOnlyIf

_NAMES: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true | false",
}
_BOUNDS = (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))


@dataclass(frozen=True)
class FieldRow:
    """One field. `entries` names the entries of the section's shelf that have it;
    empty: all.
    """

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
        rows += (
            _of_shelf(name) if name in REGISTRIES else _rows(name, info, TrialConfig)
        )
    return tuple(rows)


def space_fields() -> tuple[FieldRow, ...]:
    """The fields of a search space beside the config in its `base`."""
    return tuple(_of_model(SearchSpace, ""))


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
    shelf, tag = REGISTRIES[section], TAGS[section]
    names = catalogue.names(shelf)
    have: dict[FieldRow, dict[str, None]] = {}
    for name in names:
        for row in _of_model(class_of(section, name), f"{section}."):
            have.setdefault(row, {})[name] = None
    rows = [
        replace(row, entries=() if len(owners) == len(names) else tuple(owners))
        for row, owners in have.items()
        if row.path != tag
    ]
    # A section whose entry is named outside of it has a row for that field.
    first = FieldRow(tag, "text", "-", " | ".join(names), f"entry of {shelf}")
    return [first] * tag.startswith(f"{section}.") + sorted(
        rows, key=lambda row: row.path
    )


def _of_model(model: type[BaseModel], prefix: str) -> Iterator[FieldRow]:
    for name, info in model.model_fields.items():
        if not info.exclude:
            yield from _rows(f"{prefix}{info.alias or name}", info, model)


def _rows(path: str, info: FieldInfo, model: type[BaseModel]) -> Iterator[FieldRow]:
    """The row of a field of a model, or the rows of its parts."""
    every = _forms(info.annotation)
    parts = [each for each in every if _is_part(each)]
    plain = [each for each in every if each not in parts]
    if plain or not parts:
        yield FieldRow(
            path=path,
            type=" | ".join(dict.fromkeys(map(_type, plain))) or "text",
            default=_default(info),
            allowed=_allowed(info, plain),
            description=_meaning(path, info, model),
        )
    for part in parts:
        yield from _of_model(part, f"{path}.")


def _meaning(path: str, info: FieldInfo, model: type[BaseModel]) -> str:
    """The meaning of a field, that of a parent where an entry changes its default
    alone, and the fields that it is read with.
    """
    section, _, name = path.rpartition(".")
    texts = (
        _texts(each).get(name) for each in model.__mro__ if issubclass(each, BaseModel)
    )
    meaning = " ".join((info.description or next(filter(None, texts), "")).split())
    read = [
        mark.words(f"{section}.")
        for mark in info.metadata
        if isinstance(mark, ReadOnlyIf)
    ]
    return f"{meaning} (read only with {' or '.join(read)})" if read else meaning


@cache
def _texts(model: type[BaseModel]) -> dict[str, str]:
    """The texts that stand under a class's own fields."""
    found = {}
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    for field, text in pairwise(getattr(tree, "body", ())):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(t))
            ):
                found[name] = t
    return found


def _forms(annotation: Any) -> list[Any]:
    """The alternatives of a type, without None and without what annotates them.

    >>> _forms(Annotated[int | Annotated[str, "a"] | None, "b"])
    [<class 'int'>, <class 'str'>]
    """
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in _forms(part)]
    if get_origin(annotation) is Annotated:
        return _forms(get_args(annotation)[0])
    return [] if annotation is type(None) else [annotation]


def _is_part(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, BaseModel)


def _type(form: Any) -> str:
    origin = get_origin(form)
    if origin is Literal:
        return "choice"
    if origin is tuple:
        inner = dict.fromkeys(map(_type, _forms(get_args(form)[0])))
        return f"list of {' | '.join(inner)}"
    if dict in (origin, form) or _is_part(form):
        return "mapping"
    return _NAMES.get(form, "value")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.default
    if value in (PydanticUndefined, None, ()) or _is_part(type(value)):
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _allowed(info: FieldInfo, plain: list[Any]) -> str:
    marks = list(info.metadata)
    for each in get_args(info.annotation):  # bounds of a number that may be left out
        marks += [
            m
            for a in getattr(each, "__metadata__", ())
            for m in getattr(a, "metadata", ())
        ]
    rules = [
        f"{sign} {getattr(each, name)}"
        for each in marks
        for name, sign in _BOUNDS
        if getattr(each, name, None) is not None
    ]
    rules += [
        " | ".join(each.names()) for each in info.metadata if isinstance(each, NameOf)
    ]
    rules += [
        " | ".join(map(str, get_args(e))) for e in plain if get_origin(e) is Literal
    ]
    return ", ".join(rules)

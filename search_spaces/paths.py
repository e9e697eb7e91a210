"""Dotted paths into nested fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

_Value = TypeVar("_Value")


def set_path(fields: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of nested `fields` with `value` at the dotted `path`.

    >>> set_path({"a": {"b": 1, "c": 2}}, "a.b", 3)
    {'a': {'b': 3, 'c': 2}}
    """
    head, _, rest = path.partition(".")
    if not rest:
        return {**fields, head: value}
    inner = fields.get(head)
    return {**fields, head: set_path(inner if isinstance(inner, dict) else {}, rest, value)}


def outermost_first(given: Iterable[tuple[str, _Value]]) -> list[tuple[str, _Value]]:
    """Values by their dotted paths, in the order in which they are set: a section that is set as a
    whole must not remove a field of it that is set by itself.

    >>> outermost_first([("model.dropout", 0.5), ("model", {"name": "clc"})])
    [('model', {'name': 'clc'}), ('model.dropout', 0.5)]
    """
    return sorted(given, key=lambda pair: pair[0].count("."))


def replaced(first: Mapping[str, _Value], last: Mapping[str, _Value]) -> dict[str, _Value]:
    """Values by their dotted paths, with those of `last` in place of all at or below their paths.

    >>> replaced({"data.name": "health", "training.epochs": 2}, {"data": {"name": "snips"}})
    {'training.epochs': 2, 'data': {'name': 'snips'}}
    """
    kept = {
        path: value
        for path, value in first.items()
        if not any(f"{path}.".startswith(f"{other}.") for other in last)
    }
    return {**kept, **last}

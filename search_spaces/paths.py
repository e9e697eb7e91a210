"""Dotted paths into nested fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainables.errors import InvalidInput, quote


def set_path(fields: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of nested `fields` with `value` at the dotted `path`.

    >>> set_path({"a": {"b": 1, "c": 2}}, "a.b", 3)
    {'a': {'b': 3, 'c': 2}}

    A number on the way is replaced: where a field may be a number or a mapping, it is another form.

    Raises: InvalidInput where text or a list is on the way.
    """
    *parents, last = path.split(".")
    found = inner = dict(fields)
    for parent in parents:
        below = inner.get(parent)
        if isinstance(below, str | list | tuple):
            raise InvalidInput(f"expected a mapping at {parent} to set {path}, got {quote(below)}")
        inner[parent] = dict(below) if isinstance(below, dict) else {}
        inner = inner[parent]
    inner[last] = value
    return found


def set_all(base: Mapping[str, Any], *layers: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Nested fields with the values of each layer at their dotted paths, a later layer over an
    earlier one. Within a layer the outermost path is first: a section that is set as a whole must
    not remove a field of it that is set by itself.

    >>> set_all({}, [("model.dropout", 0.5), ("model", {"name": "clc"})], [("model.name", "bert")])
    {'model': {'name': 'bert', 'dropout': 0.5}}
    """
    fields = dict(base)
    for layer in layers:
        for path, value in sorted(layer, key=lambda pair: pair[0].count(".")):
            fields = set_path(fields, path, value)
    return fields


def is_within(path: str, outer: str) -> bool:
    """Whether a dotted path is `outer` or below it.

    >>> is_within("data.name", "data"), is_within("data", "data"), is_within("database", "data")
    (True, True, False)
    """
    return f"{path}.".startswith(f"{outer}.")

"""Dotted paths into nested fields."""

from __future__ import annotations

from typing import Any


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

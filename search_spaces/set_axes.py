"""Axes that are set from outside of a space's file (`--set`), over its own values."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from search_spaces.paths import is_within
from trainables import catalogue
from trainables.config.trial import REGISTRIES, TrialConfig, class_of

_MANY = (tuple, list, dict)


def is_list(path: str) -> bool:
    """Whether a list is one value of the field at a dotted path, with any entry that
    its section can have.

    >>> is_list("evaluation.attacks"), is_list("model.encoder")
    (True, True)
    >>> is_list("training.learning_rate"), is_list("privacy.noise_multiplier"), is_list("model")
    (False, False, False)
    """
    section, *names = path.split(".")
    if not names:
        return False
    classes: list[Any] = [TrialConfig.model_fields[section].annotation]
    if section in REGISTRIES:
        entries = catalogue.names(REGISTRIES[section])
        classes = [class_of(section, entry) for entry in entries]
    fields = (getattr(each, "model_fields", {}).get(names[0]) for each in classes)
    return any(_takes_many(field.annotation) for field in fields if field)


def _takes_many(annotation: Any) -> bool:
    origin = typing.get_origin(annotation) or annotation
    return (
        origin is Any
        or origin in _MANY
        or any(_takes_many(part) for part in typing.get_args(annotation))
    )


def with_axis(document: Mapping[str, Any], path: str, values: Any) -> dict[str, Any]:
    """A space's document with an axis of `values` at a dotted path, over what the space
    says of it: an overridden value goes, and a variant that sets the field itself has
    the axis instead, unless it drops axes.
    """
    found = {**document, "axes": {**(document.get("axes") or {}), path: values}}
    if isinstance(overridden := document.get("override"), dict):
        found["override"] = _without(overridden, path)
    variants = document.get("variants")
    if isinstance(variants, list | tuple):
        found["variants"] = [_with_own_axis(each, path, values) for each in variants]
    return found


def _with_own_axis(variant: Any, path: str, values: Any) -> Any:
    if not isinstance(variant, dict) or variant.get("drop_axes"):
        return variant
    fixed, axes = ({**(variant.get(name) or {})} for name in ("set", "axes"))
    if not any(_names(given, path) for given in (fixed, axes)):
        return variant
    own = {**_without(axes, path), path: values}
    return {**variant, "set": _without(fixed, path), "axes": own}


def _names(fields: Mapping[str, Any], path: str) -> bool:
    """Whether fields by dotted paths have a value at a path, below it, or in a mapping
    above it.
    """
    for outer, value in fields.items():
        inner = path.removeprefix(f"{outer}.").split(".")
        if is_within(outer, path) or (is_within(path, outer) and _has(value, inner)):
            return True
    return False


def _has(value: Any, names: list[str]) -> bool:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _without(fields: Mapping[str, Any], path: str) -> dict[str, Any]:
    return {
        outer: value for outer, value in fields.items() if not is_within(outer, path)
    }

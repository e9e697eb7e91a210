"""Dotted paths into nested fields, and short names of fields and their values."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainables.errors import InvalidInput, quote


def set_path(fields: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of nested `fields` with `value` at the dotted `path`.

    >>> set_path({"a": {"b": 1, "c": 2}}, "a.b", 3)
    {'a': {'b': 3, 'c': 2}}

    A number on the way is replaced: where a field may be a number or a mapping, it is
    another form.

    Raises: InvalidInput where text or a list is on the way.
    """
    *parents, last = path.split(".")
    found = inner = dict(fields)
    for parent in parents:
        below = inner.get(parent)
        if isinstance(below, str | list | tuple):
            raise InvalidInput(
                f"expected a mapping at {parent} to set {path}, got {quote(below)}"
            )
        inner[parent] = dict(below) if isinstance(below, dict) else {}
        inner = inner[parent]
    inner[last] = value
    return found


def set_all(
    base: Mapping[str, Any], *layers: Iterable[tuple[str, Any]]
) -> dict[str, Any]:
    """Nested fields with the values of each layer at their dotted paths, a later layer
    over an earlier one. Within a layer the outermost path is first: a section that is
    set as a whole must not remove a field of it that is set by itself.

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


# Short names: the paper's letters, and the usual ones.
_LABELS = {
    "privacy.max_grad_norm": "C",
    "privacy.noise_multiplier": "z0",
    "privacy.noise_multiplier.target_epsilon": "epsilon",
    "privacy.noise_decay": "decay",
    "privacy.noise_decay.kind": "decay",
    "privacy.noise_decay.tau": "tau",
    "training.learning_rate": "lr",
    "training.expected_batch_size": "B",
    "training.num_workers": "N",
    "training.steps": "T",
}


def label(path: str) -> str:
    """A short name of a config's field.

    >>> [label(f"privacy.{name}") for name in ("max_grad_norm", "noise_multiplier", "noise_decay")]
    ['C', 'z0', 'decay']
    >>> label("training.expected_batch_size"), label("training.seed"), label("model.name")
    ('B', 'seed', 'name')
    """
    return _LABELS.get(path, path.rsplit(".", 1)[-1])


def short(value: Any) -> str:
    """A short form of an axis' value for tables.

    >>> short({"target_epsilon": 8.0}), short({"kind": "linear", "tau": 0.1}), short(1e-5)
    ('ε ≤ 8', 'linear:0.1', '1e-05')
    >>> short({"kind": "none", "tau": 0.0}), short({"total_noise": 0.5}), short(["minilm", "mpnet"])
    ('none', 'total_noise:0.5', 'minilm+mpnet')
    """
    match value:
        case float():
            return f"{value:g}"
        case {"target_epsilon": target} if len(value) == 1:
            return f"ε ≤ {short(target)}"
        case {"kind": "none"}:
            return "none"
        case {"kind": _}:
            return ":".join(map(short, value.values()))
        case list() | tuple():
            return "+".join(map(short, value))
        case dict():
            return ":".join(f"{key}:{short(part)}" for key, part in value.items())
    return str(value)


def setting(path: str, value: Any) -> str:
    """A field and its value.

    >>> setting("privacy.max_grad_norm", 0.5)
    'C=0.5'
    >>> setting("privacy.noise_multiplier", {"target_epsilon": 8})
    'ε≤8'
    """
    words = short(value)
    return (
        words.replace(" ", "") if words.startswith("ε ≤ ") else f"{label(path)}={words}"
    )

"""How a trial's figures and fields are called and written in a tracking store. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from trainables.result import is_curator_only

CURATOR_PREFIX = "curator_only/"


def metric_key(name: str) -> str:
    """A metric's name in MLflow.

    >>> metric_key("ser"), metric_key("mia_shadow_auc"), metric_key("best_mia_shadow_auc")
    ('ser', 'curator_only/mia_shadow_auc', 'curator_only/best_mia_shadow_auc')
    """
    private = is_curator_only(name) or is_curator_only(name.removeprefix("best_"))
    return f"{CURATOR_PREFIX}{name}" if private else name


def flat(fields: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Dotted names and values of nested fields, those without a value left out.

    >>> dict(flat({"a": {"b": 1, "c": None}, "d": [1, 2]}))
    {'a.b': 1, 'd': '1, 2'}
    """
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from flat(value, f"{name}.")
        elif isinstance(value, list | tuple):
            yield name, ", ".join(str(item) for item in value)
        elif value is not None:
            yield name, value


def epoch_table(rows: list[dict[str, Any]]) -> str:
    """The epochs of a trial as CSV."""
    names = sorted({name for row in rows for name in row["metrics"]})
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["epochs_done", "seconds", *(metric_key(name) for name in names)])
    for row in rows:
        writer.writerow(
            [row["epochs_done"], row["seconds"], *(row["metrics"].get(name) for name in names)]
        )
    return text.getvalue()

"""Mutants that no test kills, reviewed in `reviewed.yaml`, and what became of the
others.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml


@cache
def entries():
    """(`same` where no result changes, `why` where one is left alive; the fields)."""
    found = yaml.safe_load(
        Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    )
    return [
        (kind, fields)
        for kind, reasons in found.items()
        for entries in reasons.values()
        for fields in entries
    ]


def covers(fields, row):
    """Whether every field that an entry has is the row's."""
    return all(row[name] == value for name, value in fields.items())


def review_of(row):
    """The kind of the entry that a row falls under."""
    return next((kind for kind, fields in entries() if covers(fields, row)), None)


def sorted_out(rows):
    """Rows by what became of them: killed, the same (by the compiler or by review),
    survived.
    """
    found = {"killed": [], "same": [], "survived": []}
    for row in rows:
        same = row["outcome"] == "same code" or review_of(row) == "same"
        found[
            "killed" if row["outcome"] == "killed" else "same" if same else "survived"
        ].append(row)
    return found

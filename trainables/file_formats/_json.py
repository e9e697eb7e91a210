"""JSON objects a line, for the entries that read such files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainables.data.bio_files import lines
from trainables.errors import InvalidData


def first_object(path: Path) -> dict[str, Any] | None:
    """The object in the first line that is not empty; None where there is no such."""
    if not path.is_file():
        return None
    try:
        line = next((line for line in lines(path) if line.strip()), "")
        found = json.loads(line) if line.lstrip().startswith("{") else None
    except (InvalidData, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def objects(path: Path) -> Iterator[tuple[str, dict[str, Any]] | InvalidData]:
    """(where, object) of every line that is not empty, or what is wrong with the line."""
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            yield where, found
        else:
            yield InvalidData(f"expected a JSON object in {where}, got something else")

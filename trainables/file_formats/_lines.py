"""The first line of a file and JSON values: None in place of a problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainables.documents import DocumentProblem, file_lines, parse_json
from trainables.errors import InvalidData


def first_line(path: Path) -> str:
    """The first line that is not blank; empty where there is none, or it cannot be read."""
    if not path.is_file():
        return ""
    try:
        for found in file_lines(path):
            if isinstance(found, InvalidData):
                return ""
            if found[1].strip():
                return found[1]
    except InvalidData:
        return ""
    return ""


def first_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in the first line; None where there is no such."""
    value = json_value(first_line(path))
    return value if isinstance(value, dict) else None


def json_value(text: str) -> Any:
    """The value of a JSON text; None where it is none."""
    try:
        return parse_json(text)
    except DocumentProblem:
        return None

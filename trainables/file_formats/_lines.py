"""The first lines of a file and JSON values, without their problems."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainables.documents import DocumentProblem, parse_json
from trainables.errors import InvalidData
from trainables.files import file_lines, without_problems


def first_lines(path: Path) -> Iterator[str]:
    """Lines that are not blank, up to the first that cannot be read; none of what is no file."""
    if path.is_file():
        with suppress(InvalidData):
            for _, line in without_problems(file_lines(path)):
                if line.strip():
                    yield line


def first_line(path: Path) -> str:
    """The first line that is not blank; empty where there is none, or it cannot be read."""
    return next(first_lines(path), "")


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

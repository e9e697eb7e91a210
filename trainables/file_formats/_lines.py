"""Lines and JSON values of files; problems are returned as values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainables.documents import DocumentProblem, parse_json, text_lines
from trainables.errors import InvalidData


def lines(path: Path) -> Iterator[tuple[str, str] | InvalidData]:
    """(where, line without its end), or its problem.

    Raises: InvalidData for a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in text_lines(file):
                where = f"{path} line {number}"
                if isinstance(line, DocumentProblem):
                    yield InvalidData(f"{line} in {where}")
                else:
                    yield where, line
    except OSError as error:
        raise InvalidData(
            f"expected a file that can be read in {path}, got {type(error).__name__}"
        ) from None


def first_line(path: Path) -> str:
    """The first line that is not blank; empty where there is none, or it cannot be read."""
    if not path.is_file():
        return ""
    try:
        for found in lines(path):
            if isinstance(found, InvalidData):
                return ""
            if found[1].strip():
                return found[1]
    except InvalidData:
        return ""
    return ""


def objects(path: Path) -> Iterator[tuple[str, dict[str, Any]] | InvalidData]:
    """(where, JSON object) of every line that is not empty, or the problem of the line."""
    for found in lines(path):
        if isinstance(found, InvalidData):
            yield found
            continue
        where, line = found
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except DocumentProblem as problem:
            yield InvalidData(f"expected a JSON object in {where}: {problem}")
            continue
        if isinstance(value, dict):
            yield where, value
        else:
            yield InvalidData(f"expected a JSON object in {where}, got something else")


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

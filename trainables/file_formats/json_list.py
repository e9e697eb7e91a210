"""A JSON list of objects in one file, each with the fields of an object of `json_lines`.

Each pass holds the whole file in memory, so a large corpus should be JSON lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from trainables.data.records import Utterance
from trainables.errors import InvalidData, kind_of
from trainables.file_formats import json_lines
from trainables.file_formats._fields import record_of
from trainables.file_formats._lines import first_line
from trainables.file_formats._record import Options, Record
from trainables.files import read_json

LACKS: frozenset[str] = frozenset()
SUFFIX = ".json"
_MOST_BYTES = 1 << 30


def recognizes(path: Path) -> bool:
    """Whether it is named as JSON and begins with a list. Tokens of other formats may be "["."""
    return path.suffix.lower() == SUFFIX and first_line(path).lstrip().startswith("[")


def read(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """The records in the order of the list.

    Raises: InvalidData for a file that is no JSON list, or above 1 GiB.
    """
    listed = read_json(path, max_bytes=_MOST_BYTES)
    if not isinstance(listed, list):
        raise InvalidData(f"expected a JSON list in {path}, got {kind_of(listed)}")
    for number, fields in enumerate(listed, start=1):
        where = f"{path} object {number}"
        if isinstance(fields, dict):
            yield record_of(fields, where=where, options=options)
        else:
            yield InvalidData(f"expected a JSON object in {where}, got {kind_of(fields)}")


def write(path: Path, utterances: Iterable[Utterance], *, slots: bool) -> None:
    """Write a new file with a record a line; without `slots` no record has tags."""
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write("[\n")
        for number, utterance in enumerate(utterances):
            file.write("," * bool(number) + json_lines.line(utterance, slots=slots))
        file.write("]\n")

"""A user's own corpus as JSON lines, one object an utterance.

    {"tokens": ["call", "ann"], "tags": ["O", "B-contact"], "intent": "call"}
    {"text": "call ann", "slots": [["contact", 1, 2]], "intent": "call"}

Tokens are a list, or a text cut at white space; labels are BIO tags, or slots as (name, first
token, one past the last), or absent. `intent`, `part` (train, validation, test) and `group` (the
key of the record's group) are optional; a corpus has intents and groups for all of its records or
for none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trainables.data import configs as data_configs
from trainables.data.json_frames import utterances
from trainables.data.records import NO_INTENT, LabelSchema, Utterance
from trainables.data.schema import schema_of
from trainables.errors import InvalidData

PUBLIC = False


class Config(data_configs.FrameFiles):
    """The fields of `data` with `name: json_lines`."""

    name: Literal["json_lines"] = "json_lines"


def default_path() -> str:
    """Place under the data directory; usually `data.path` names another."""
    return "utterances.jsonl"


def files(path: Path, *, config: Config) -> tuple[Path, ...]:
    """The files to read. Raises: InvalidData where one is missing."""
    if not path.is_file():
        raise InvalidData(f"expected a JSON-lines file in {path}, got none (see data.path)")
    return (path,)


def read(path: Path, *, config: Config) -> Iterator[Utterance]:
    """The utterances in the order of the file; empty lines are skipped.

    Raises: InvalidData with file and line for another object, and for an empty file.
    """
    files(path, config=config)
    first: Utterance | None = None
    for where, utterance in utterances(path):
        first = first or utterance
        for field, differs in (
            ("group", (first.group is None) != (utterance.group is None)),
            ("intent", (first.intent == NO_INTENT) != (utterance.intent == NO_INTENT)),
        ):
            if differs:
                raise InvalidData(
                    f"expected {field} for every record or for none, {where} differs from the lines"
                    " before"
                )
        yield utterance
    if first is None:
        raise InvalidData(f"expected utterances in {path}, got an empty file")


def schema(path: Path, *, config: Config) -> LabelSchema:
    """The labels found in the private records: a release that no epsilon covers."""
    return schema_of(read(path, config=config), source=f"read from {path}", public=False)


def pool_size(config: Config) -> int | None:
    """Not known without counting private records."""
    return None

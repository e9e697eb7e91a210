"""JSON lines: one object an utterance, its fields in several spellings.

{"tokens": ["call", "ann"], "tags": ["O", "B-contact"], "intent": "call"}
{"text": "call ann", "slots": [["contact", 1, 2]], "intent": "call"}
{"text": "call ann", "entities": [{"start": 5, "end": 8, "label": "contact"}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trainables.data.records import NO_INTENT, Utterance
from trainables.errors import InvalidData
from trainables.file_formats._fields import records_of_lines
from trainables.file_formats._lines import first_object
from trainables.file_formats._record import Options, Record

LACKS: frozenset[str] = frozenset()
SUFFIX = ".jsonl"


def recognizes(path: Path) -> bool:
    """Whether its first line is a JSON object that no other entry recognises."""
    first = first_object(path)
    return first is not None and "annot_utt" not in first


def read(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """The records in the order of the file; empty lines are skipped."""
    return records_of_lines(path, options=options)


def write(path: Path, utterances: Iterable[Utterance], *, slots: bool) -> None:
    """Write a new file; without `slots` no record has tags."""
    with path.open("x", encoding="utf-8", newline="\n") as file:
        for utterance in utterances:
            file.write(line(utterance, slots=slots))


def line(utterance: Utterance, *, slots: bool) -> str:
    """One record with the end of its line; without `slots` it has no tags."""
    fields: dict[str, Any] = {"tokens": list(utterance.tokens)}
    if slots:
        fields["tags"] = list(utterance.tags)
    if utterance.intent != NO_INTENT:
        fields["intent"] = utterance.intent
    fields["part"] = utterance.part
    if utterance.group is not None:
        fields["group"] = utterance.group
    return json.dumps(fields, ensure_ascii=False) + "\n"

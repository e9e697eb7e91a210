"""MASSIVE: JSON lines whose `annot_utt` marks slots in the text, `wake me at [time : nine am]`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainables.data.records import NO_INTENT, Utterance
from trainables.errors import InvalidData
from trainables.file_formats._fields import records_of_lines
from trainables.file_formats._lines import first_object
from trainables.file_formats._marks import text_with_marks
from trainables.file_formats._record import Options, Record

LACKS: frozenset[str] = frozenset({"group"})
SUFFIX = ".jsonl"
_PARTS = {"train": "train", "validation": "dev", "test": "test"}


def recognizes(path: Path) -> bool:
    """Whether its first line is an object with the field `annot_utt`."""
    return "annot_utt" in (first_object(path) or {})


def read(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """The records in the order of the file. A text is cut at white space and at slots' edges."""
    return records_of_lines(path, options=options)


def write(path: Path, utterances: Iterable[Utterance], *, slots: bool) -> None:
    """Write a new file.

    Raises: InvalidData for a text with brackets, which are marks here.
    """
    with path.open("x", encoding="utf-8", newline="\n") as file:
        for number, utterance in enumerate(utterances, start=1):
            fields = {
                "id": str(number - 1),
                "partition": _PARTS[utterance.part],
                "intent": utterance.intent,
                "utt": " ".join(utterance.tokens),
                "annot_utt": _marked_text(utterance, number),
            }
            if utterance.intent == NO_INTENT:
                del fields["intent"]
            file.write(json.dumps(fields, ensure_ascii=False) + "\n")


def _marked_text(utterance: Utterance, number: int) -> str:
    return text_with_marks(
        utterance,
        number,
        mark=lambda name, text: f"[{name} : {text}]",
        no_tokens="[]",
        no_names="[]:",
    )

"""A user's own corpus as JSON lines."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from trainables.data.configs import FrameFiles
from trainables.data.formats.reading import File
from trainables.data.formats.source import own_utterances
from trainables.data.records import NO_INTENT, Utterance
from trainables.errors import InvalidData

_ENCODER = json.JSONEncoder(ensure_ascii=False)


class JsonLines(FrameFiles):
    """A user's own corpus as JSON lines, one object an utterance.

        {"tokens": ["call", "ann"], "tags": ["O", "B-contact"], "intent": "call"}
        {"text": "call ann", "slots": [["contact", 1, 2]], "intent": "call"}

    Tokens are a list, or a text cut at white space; labels are BIO tags, or slots as
    (name, first token, one past the last), or absent. `intent`, `part` (train,
    validation, test) and `group` (the key of the record's group) are optional; a corpus
    has intents and groups for all of its records or for none.
    """

    place = "utterances.jsonl"

    name: Literal["json_lines"] = "json_lines"

    def files(self, path: Path) -> tuple[Path, ...]:
        """As `DataConfig.files`."""
        if not path.is_file():
            raise InvalidData(
                f"expected a JSON-lines file in {path}, got none (see data.path)"
            )
        return (path,)

    def read(self, path: Path) -> Iterator[Utterance]:
        """The utterances in the order of the file; empty lines are skipped.

        Raises: InvalidData with file and line for another object, and for an empty
            file.
        """
        return own_utterances(File(file, "json_lines") for file in self.files(path))


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
    return _ENCODER.encode(fields) + "\n"

"""Schema-Guided Dialogue."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from trainables.data.bio import tags_of
from trainables.data.configs import ShippedFrames
from trainables.data.formats.reading import File
from trainables.data.formats.source import own_utterances
from trainables.data.records import Part, Slot, Utterance
from trainables.errors import InvalidData
from trainables.io.files import read_json

_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)*|\d+(?:[.:]\d+)*|[^\sa-z\d.?!,]")
_PARTS: dict[str, Part] = {"train": "train", "dev": "validation", "test": "test"}
_MAX_BYTES = 64 << 20  # the corpus' own files have 1 to 3 MB
_FEWEST_TOKENS, _MOST_TOKENS = 3, 30


class SgdDialogues(ShippedFrames):
    """Schema-Guided Dialogue: user turns of task dialogues in 20 domains (Rastogi et
    al., AAAI 2020).

    Two forms are read: the data set's own folders of `dialogues_*.json`, and one file
    of prepared turns (`tokens`, `tags`, `intent`, one JSON object a line). An intent is
    `Domain:ActiveIntent`. The text is public and meant for pretraining; it is similar
    to the other corpora here.
    """

    licence = "CC BY-SA 4.0"
    source = (
        "https://github.com/google-research-datasets/dstc8-schema-guided-dialogue, its"
        " folders train, dev and test"
    )
    place = "sgd_dialogues/utterances.jsonl"

    name: Literal["sgd_dialogues"] = "sgd_dialogues"

    def files(self, path: Path) -> tuple[Path, ...]:
        """As `DataConfig.files`."""
        if path.is_file():
            return (path,)
        found = tuple(sorted(path.rglob("dialogues_*.json")))
        if not found:
            raise InvalidData(
                f"expected a file of turns or folders of dialogues_*.json in {path}, got"
                " none (see data.path, SWEEP_DATA_DIR)"
            )
        return found

    def read(self, path: Path) -> Iterator[Utterance]:
        """User turns that have a slot and 3 to 30 tokens; a turn about two domains
        occurs once for each. Raises: InvalidData with file and place for what is
        neither form.
        """
        if path.is_file():
            yield from own_utterances([File(path, "json_lines")])
            return
        for file in self.files(path):
            part = _PARTS.get(file.parent.name, "train")
            for place, dialogue in enumerate(_dialogues(file)):
                for turn in dialogue.get("turns", ()):
                    where = f"{file} dialogue {place}"
                    if turn.get("speaker") == "USER":
                        yield from _of_turn(turn, part=part, where=where)


def tokens_with_places(text: str) -> list[tuple[str, int, int]]:
    """(token, start, end) in characters: lower-cased words, numbers and marks but `. ?
    ! ,`.

    >>> [token for token, _, _ in tokens_with_places("At 5:30, San Jose's best?")]
    ['at', '5:30', 'san', "jose's", 'best']
    """
    return [
        (found[0], found.start(), found.end())
        for found in _TOKEN.finditer(text.lower())
    ]


def _dialogues(file: Path) -> list[dict[str, Any]]:
    found: object = read_json(file, max_bytes=_MAX_BYTES)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidData(f"expected a list of dialogues in {file}, got something else")
    return found


def _of_turn(turn: dict[str, Any], *, part: Part, where: str) -> Iterator[Utterance]:
    try:
        places = tokens_with_places(turn["utterance"])
        frames = [
            (
                f"{frame['service'].split('_')[0]}:{frame['state']['active_intent']}",
                _slots(frame["slots"], places),
            )
            for frame in turn["frames"]
        ]
    except (KeyError, TypeError, AttributeError):
        raise InvalidData(
            f"expected user turns with utterance, frames, slots and state in {where}"
        ) from None
    if not _FEWEST_TOKENS <= len(places) <= _MOST_TOKENS:
        return
    tokens = tuple(token for token, _, _ in places)
    for intent, slots in frames:
        if slots:
            yield Utterance(tokens, tags_of(slots, len(tokens)), intent, part)


def _slots(
    given: list[dict[str, Any]], places: list[tuple[str, int, int]]
) -> list[Slot]:
    """Spans of characters as spans of tokens; of two that overlap the first is kept."""
    kept: list[Slot] = []
    for slot in sorted(given, key=lambda slot: int(slot["start"])):
        inside = [
            index
            for index, (_, start, end) in enumerate(places)
            if start < slot["exclusive_end"] and end > slot["start"]
        ]
        if inside and (not kept or kept[-1][2] <= inside[0]):
            kept.append((str(slot["slot"]), inside[0], inside[-1] + 1))
    return kept

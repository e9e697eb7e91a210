"""JSON-lines files of users: frames to score, attack scores. Errors name file and line, and never
quote a line, which may be a private utterance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from trainables.data.bio import slots_lenient
from trainables.data.bio_files import require_bio
from trainables.data.records import NO_INTENT, Frame, Slot
from trainables.documents import DocumentProblem, parse_json, text_lines
from trainables.errors import InvalidData, InvalidInput


@dataclass(frozen=True)
class FrameFile:
    """Frames of a file in its order, and each utterance's tokens (its text cut at white space).
    `annotates_slots`: its lines have slots or tags, of which there may be none.
    """

    frames: list[Frame]
    tokens: list[tuple[str, ...]]
    annotates_slots: bool

    @property
    def has_intents(self) -> bool:
        """Whether its utterances have intents."""
        return any(frame.intent != NO_INTENT for frame in self.frames)

    @property
    def has_slots(self) -> bool:
        """Whether some utterance has a slot."""
        return any(frame.slots for frame in self.frames)


def read_frames(path: Path) -> FrameFile:
    """One object a line: `text` or `tokens`, `intent`, and `slots` (each [name, start, end], end
    exclusive, or an object with slot, start and end) or BIO `tags`, as in `sweep predict --json`
    and the `json_lines` data set. Intents or slots may be missing.

    Other fields are ignored.

    Raises: InvalidData naming file and line; InvalidInput for a file that cannot be read.
    """
    frames, tokens = [], []
    first: tuple[bool, bool] | None = None
    for where, fields in _objects(path):
        kinds = ("intent" in fields, "slots" in fields or "tags" in fields)
        first = first or kinds
        for kind, here, there in zip(("intent", "slots"), kinds, first, strict=True):
            if here != there:
                _refuse(where, f"expected {kind} on every line or on none")
        words = _words(fields, where)
        intent = fields.get("intent", NO_INTENT)
        if not isinstance(intent, str):
            _refuse(where, "expected intent to be a string")
        frames.append(Frame(intent, _slots(fields, len(words), where)))
        tokens.append(words)
    return FrameFile(frames, tokens, annotates_slots=first is not None and first[1])


def _words(fields: dict[str, Any], where: str) -> tuple[str, ...]:
    if "tokens" in fields:
        tokens = fields["tokens"]
        if not isinstance(tokens, list) or not all(isinstance(t, str) for t in tokens):
            _refuse(where, "expected tokens to be a list of words")
        words = tuple(tokens)
    else:
        text = fields.get("text")
        words = tuple(text.split()) if isinstance(text, str) else ()
    if not words or not all(word.strip() for word in words):
        _refuse(where, "expected text or tokens with at least one token")
    return words


def _slots(fields: dict[str, Any], length: int, where: str) -> tuple[Slot, ...]:
    if "tags" in fields:
        tags = fields["tags"]
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            _refuse(where, "expected tags to be a list of names")
        if len(tags) != length:
            _refuse(where, f"expected {length} tags, one per token, got {len(tags)}")
        require_bio(tags, where=where)
        return slots_lenient(tags)
    slots = fields.get("slots", [])
    if not isinstance(slots, list):
        _refuse(where, "expected slots to be a list of [name, start, end]")
    return tuple(_slot(slot, length, where) for slot in slots)


def refuse_unless_aligned(reference: FrameFile, hypothesis: FrameFile, *, spans: bool) -> None:
    """Raises: InvalidInput unless both have equal numbers of utterances.

    With `spans`, slots are compared by token position, so the token counts must agree too.
    """
    counts = len(reference.frames), len(hypothesis.frames)
    if counts[0] != counts[1]:
        raise InvalidInput(
            f"expected as many lines in the hypothesis as in the reference ({counts[0]}),"
            f" got {counts[1]}"
        )
    if not hypothesis.has_intents and reference.has_intents:
        raise InvalidInput("expected an intent on each line of the hypothesis, got none")
    if not spans:
        return
    for number, (one, other) in enumerate(
        zip(reference.tokens, hypothesis.tokens, strict=True), start=1
    ):
        if len(one) != len(other):
            raise InvalidInput(
                f"expected the reference's {len(one)} tokens on line {number} of the hypothesis,"
                f" got {len(other)} (--match value compares texts in place of positions)"
            )


def read_scores(path: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """One object a line: `score`, a number, higher for members, and `member`, true or false.

    Raises: InvalidData naming file and line; InvalidInput for a file that cannot be read.
    """
    scores: list[float] = []
    members: list[bool] = []
    for where, fields in _objects(path):
        score, member = fields.get("score"), fields.get("member")
        if isinstance(score, bool) or not isinstance(score, int | float):
            _refuse(where, "expected score to be a number")
        if member not in (True, False):  # 1 and 0 are equal to them
            _refuse(where, "expected member to be true or false")
        scores.append(float(score))
        members.append(bool(member))
    return np.array(scores), np.array(members)


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file and line, for messages; object) of every line."""
    number = 0
    try:
        with path.open("rb") as file:  # a folder opens on some systems, and fails when read
            for number, line in text_lines(file):
                where = f"{path}, line {number}"
                yield where, _object(line, where)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    if not number:
        raise InvalidData(f"expected at least one line in {path}, got an empty file")


def _object(text: str | DocumentProblem, where: str) -> dict[str, Any]:
    if isinstance(text, DocumentProblem):
        _refuse(where, f"{text}{text.advice}")
    if not text.strip():
        _refuse(where, "expected an object, got an empty line")
    try:
        value = parse_json(text)
    except DocumentProblem as problem:
        _refuse(where, f"expected a JSON object on one line: {problem}")
    if not isinstance(value, dict):
        _refuse(where, f"expected a JSON object, got a {type(value).__name__}")
    return value


def _slot(value: Any, num_tokens: int, where: str) -> Slot:
    if isinstance(value, dict):
        value = [value.get(name) for name in ("slot", "start", "end")]
    well_formed = (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and all(type(place) is int for place in value[1:])
    )
    if not well_formed:
        _refuse(
            where,
            "expected a slot to be [name, start, end] or an object with slot, start, end",
        )
    name, start, end = value
    if not 0 <= start < end <= num_tokens:
        _refuse(
            where,
            f"expected 0 <= start < end <= {num_tokens} tokens in a slot, got {start} and {end}",
        )
    return name, start, end


def _refuse(where: str, problem: str) -> NoReturn:
    raise InvalidData(f"{where}: {problem}")

"""JSON-lines files of users: frames to score, scores to judge. Errors name file and line, and never
quote a line, which may be a private utterance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from trainables.data.records import Frame, Slot
from trainables.documents import DocumentProblem, parse_json, text_lines
from trainables.errors import InvalidData, InvalidInput


@dataclass(frozen=True)
class FrameFile:
    """Frames of a file in its order, and each utterance's tokens (its text cut at white space)."""

    frames: list[Frame]
    tokens: list[tuple[str, ...]]


def read_frames(path: Path) -> FrameFile:
    """One object a line: `text`, `intent` and `slots` as [name, start, end], end exclusive.

    Other fields are ignored.

    Raises: InvalidData naming file and line; InvalidInput for a file that cannot be read.
    """
    frames, tokens = [], []
    for number, fields in _objects(path):
        text, intent, slots = (fields.get(name) for name in ("text", "intent", "slots"))
        if not isinstance(text, str) or not text.split():
            _refuse(path, number, "expected text to be a string with at least one token")
        if not isinstance(intent, str) or not intent:
            _refuse(path, number, "expected intent to be a string")
        if not isinstance(slots, list):
            _refuse(path, number, "expected slots to be a list of [name, start, end]")
        words = tuple(text.split())
        frames.append(Frame(intent, tuple(_slot(slot, len(words), path, number) for slot in slots)))
        tokens.append(words)
    return FrameFile(frames, tokens)


def refuse_unless_aligned(reference: FrameFile, hypothesis: FrameFile, *, spans: bool) -> None:
    """Raises: InvalidInput unless both have the same utterances, as far as numbers can tell.

    With `spans`, slots are compared by token position, so the token counts must agree too.
    """
    counts = len(reference.frames), len(hypothesis.frames)
    if counts[0] != counts[1]:
        raise InvalidInput(
            f"expected as many lines in the hypothesis as in the reference ({counts[0]}),"
            f" got {counts[1]}"
        )
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
    for number, fields in _objects(path):
        score, member = fields.get("score"), fields.get("member")
        if isinstance(score, bool) or not isinstance(score, int | float):
            _refuse(path, number, "expected score to be a number")
        if member not in (True, False):  # 1 and 0 are equal to them
            _refuse(path, number, "expected member to be true or false")
        scores.append(float(score))
        members.append(bool(member))
    return np.array(scores), np.array(members)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number from 1, object) of every line."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    number = 0
    with file:
        try:
            for number, line in text_lines(file):
                yield number, _object(line, path, number)
        except OSError as error:  # a folder opens on some systems, and fails here
            raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    if not number:
        raise InvalidData(f"expected at least one line in {path}, got an empty file")


def _object(text: str | DocumentProblem, path: Path, number: int) -> dict[str, Any]:
    if isinstance(text, DocumentProblem):
        _refuse(path, number, str(text))
    if not text.strip():
        _refuse(path, number, "expected an object, got an empty line")
    try:
        value = parse_json(text)
    except DocumentProblem as problem:
        _refuse(path, number, f"expected a JSON object on one line: {problem}")
    if not isinstance(value, dict):
        _refuse(path, number, f"expected a JSON object, got a {type(value).__name__}")
    return value


def _slot(value: Any, num_tokens: int, path: Path, number: int) -> Slot:
    well_formed = (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and all(type(place) is int for place in value[1:])
    )
    if not well_formed:
        _refuse(path, number, "expected a slot to be [name, start, end]")
    name, start, end = value
    if not 0 <= start < end <= num_tokens:
        _refuse(
            path,
            number,
            f"expected 0 <= start < end <= {num_tokens} tokens in a slot, got {start} and {end}",
        )
    return name, start, end


def _refuse(path: Path, number: int, problem: str) -> NoReturn:
    raise InvalidData(f"{path}, line {number}: {problem}")

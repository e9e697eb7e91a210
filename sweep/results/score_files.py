"""Every metric of predictions, or of an attack's scores, in JSON-lines files of users.
Errors name file and line, and never quote a line, which may be a private utterance.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from trainables import metrics
from trainables.attacks._panel import estimates
from trainables.data.bio import require_bio, slots_lenient
from trainables.data.records import NO_INTENT, Frame, Slot
from trainables.errors import InvalidData, InvalidInput
from trainables.io.files import object_lines, without_problems
from trainables.metrics import Align, Match, membership


@dataclass(frozen=True)
class FrameFile:
    """Frames of a file in its order, and each utterance's tokens (its text cut at white
    space). `annotates_slots`: its lines have slots or tags, of which there may be none.
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


class _Line(BaseModel):
    """A line's object; other fields are ignored."""

    model_config = ConfigDict(strict=True)


class _NamedSlot(_Line):
    slot: str
    start: int
    end: int


class _FrameLine(_Line):
    tokens: list[str] = []
    text: str | None = None
    intent: str = NO_INTENT
    slots: list[Annotated[tuple[str, int, int], Strict(False)] | _NamedSlot] = []
    tags: list[str] = []

    @property
    def annotated(self) -> tuple[bool, bool]:
        """Whether it has an intent, and slots or tags."""
        given = self.model_fields_set
        return "intent" in given, bool(given & {"slots", "tags"})


class _ScoreLine(_Line):
    score: float
    member: bool | Annotated[int, Field(ge=0, le=1)]


_EXPECTED = {
    "tokens": "a list of words",
    "text": "a string",
    "intent": "a string",
    "slots": "a list of [name, start, end], or of objects with slot, start and end",
    "tags": "a list of names",
    "score": "a number",
    "member": "true or false",
}
_Read = TypeVar("_Read", bound=_Line)


def read_frames(path: Path) -> FrameFile:
    """One object a line: `text` or `tokens`, `intent`, and `slots` (each [name, start,
    end], end exclusive, or an object with slot, start and end) or BIO `tags`, as in
    `sweep predict --json` and the `json_lines` data set. Intents or slots may be
    missing.

    Raises: InvalidData naming file and line, or a file that cannot be read.
    """
    frames, tokens = [], []
    first: tuple[bool, bool] | None = None
    for where, line in _lines(path, _FrameLine):
        first = first or line.annotated
        for kind, here, there in zip(
            ("intent", "slots"), line.annotated, first, strict=True
        ):
            if here != there:
                _refuse(where, f"expected {kind} on every line or on none")
        by_tokens = "tokens" in line.model_fields_set
        words = tuple(line.tokens if by_tokens else (line.text or "").split())
        if not words or not all(word.strip() for word in words):
            _refuse(where, "expected text or tokens with at least one token")
        frames.append(Frame(line.intent, _slots(line, len(words), where)))
        tokens.append(words)
    return FrameFile(frames, tokens, annotates_slots=first is not None and first[1])


def _slots(line: _FrameLine, length: int, where: str) -> tuple[Slot, ...]:
    if "tags" in line.model_fields_set:
        if len(line.tags) != length:
            _refuse(
                where, f"expected {length} tags, one per token, got {len(line.tags)}"
            )
        require_bio(line.tags, where=where)
        return slots_lenient(line.tags)
    slots = [
        (s.slot, s.start, s.end) if isinstance(s, _NamedSlot) else s for s in line.slots
    ]
    for _, start, end in slots:
        if not 0 <= start < end <= length:
            problem = f"expected 0 <= start < end <= {length} tokens in a slot"
            _refuse(where, f"{problem}, got {start} and {end}")
    return tuple(slots)


def refuse_unless_aligned(
    reference: FrameFile, hypothesis: FrameFile, *, spans: bool
) -> None:
    """Raises: InvalidInput unless both have equal numbers of utterances.

    With `spans`, slots are compared by token position, so the token counts must agree
    too.
    """
    counts = len(reference.frames), len(hypothesis.frames)
    if counts[0] != counts[1]:
        raise InvalidInput(
            "expected as many lines in the hypothesis as in the reference"
            f" ({counts[0]}), got {counts[1]}"
        )
    if not hypothesis.has_intents and reference.has_intents:
        raise InvalidInput(
            "expected an intent on each line of the hypothesis, got none"
        )
    if not spans:
        return
    for number, (one, other) in enumerate(
        zip(reference.tokens, hypothesis.tokens, strict=True), start=1
    ):
        if len(one) != len(other):
            raise InvalidInput(
                f"expected the reference's {len(one)} tokens in utterance {number} of"
                f" the hypothesis, got {len(other)} (--match value compares texts, not"
                " positions)"
            )


def read_scores(path: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """One object a line: `score`, a number, higher for members, and `member`, true or
    false.

    Raises: InvalidData naming file and line, or a file that cannot be read.
    """
    lines = [line for _, line in _lines(path, _ScoreLine)]
    scores = np.array([line.score for line in lines], dtype=np.float64)
    return scores, np.array([bool(line.member) for line in lines])


def _lines(path: Path, kind: type[_Read]) -> Iterator[tuple[str, _Read]]:
    """(file and line, for messages; object) of every line that is not blank."""
    is_empty = True
    for where, value in without_problems(object_lines(path)):
        is_empty = False
        try:
            found = kind.model_validate(value)
        except ValidationError as error:
            field = str(
                error.errors(include_url=False, include_input=False)[0]["loc"][0]
            )
            _refuse(where, f"expected {field} to be {_EXPECTED[field]}")
        yield where, found
    if is_empty:
        raise InvalidData(f"expected at least one line in {path}, got an empty file")


def _refuse(where: str, problem: str) -> NoReturn:
    raise InvalidData(f"{where}: {problem}")


def score_files(
    reference: Path,
    hypothesis: Path,
    *,
    align: Align,
    match: Match,
    bootstrap_samples: int,
    seed: int,
) -> dict[str, float]:
    """The metrics of two files; `align` pairs slots, `match` is the criterion of a
    correct one. Intents or slots that the reference lacks are not scored.

    Raises: InvalidInput for files that are damaged or do not match.
    """
    right, guess = read_frames(reference), read_frames(hypothesis)
    refuse_unless_aligned(right, guess, spans=match == "span")
    guessed = guess.frames
    if not right.annotates_slots:
        guessed = [replace(frame, slots=()) for frame in guessed]
    has_slots = right.annotates_slots and (right.has_slots or guess.has_slots)
    labels = {"intents": right.has_intents, "slots": has_slots}
    counts = metrics.count_frames(
        right.frames,
        guessed,
        align=align,
        match=match,
        tokens=right.tokens,
        hypothesis_tokens=guess.tokens,
    )
    return metrics.summarize(
        counts,
        labels=frozenset(kind for kind, there in labels.items() if there),
        bootstrap_samples=bootstrap_samples,
        seed=seed,
    )


def membership_figures(
    path: Path, *, delta: float | None, epsilon: float | None
) -> dict[str, float | list[str]]:
    """Every figure of the scores in a file.

    With `delta` also the estimates of epsilon (no certificate); with `epsilon` as well,
    the violated bounds of that claim (`inconsistent_with_claim`).

    Raises: InvalidInput for a file that is damaged or lacks members or non-members.
    """
    if epsilon is not None and delta is None:
        raise InvalidInput("expected --delta with --epsilon")
    values, member = read_scores(path)
    found: dict[str, float | list[str]] = {
        name: _plain(name, value)
        for name, value in membership.figures(values, member).items()
    }
    if delta is not None:
        found |= estimates(values, member, delta=delta)
        if epsilon is not None:
            broken = membership.dp_inconsistencies(
                values, member, epsilon=epsilon, delta=delta
            )
            found["inconsistent_with_claim"] = list(broken)
    return found


def _plain(name: str, value: float) -> float | int | bool:
    """Convert flags to booleans and counts to integers, which trackers store as
    floats.
    """
    if name.endswith("_low_resolution"):
        return bool(value)
    return int(value) if name.startswith("num_") else value

"""One utterance as a JSON object: tokens or a text, BIO tags or spans, an intent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from trainables.data.bio import tags_of
from trainables.data.bio_files import require_bio
from trainables.data.records import NO_INTENT, Part, Slot, Utterance, size_problem
from trainables.data.storage import PARTS
from trainables.errors import InvalidData
from trainables.files import object_lines, without_problems

_ENCODER = json.JSONEncoder(ensure_ascii=False)
_FIELDS = frozenset({"text", "tokens", "tags", "slots", "intent", "part", "group"})


def utterances(path: Path) -> Iterator[tuple[str, Utterance]]:
    """(file and line, for messages; utterance) of every line of a file that is not blank.

    Raises: InvalidData with file and line for another object, never with the text.
    """
    for where, fields in without_problems(object_lines(path)):
        yield where, _utterance(fields, where)


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


def _utterance(fields: dict[str, Any], where: str) -> Utterance:
    unknown = set(fields) - _FIELDS
    if unknown:
        raise InvalidData(
            f"expected only the fields {', '.join(sorted(_FIELDS))} in {where},"
            f" got {len(unknown)} more"
        )
    intent = fields.get("intent", NO_INTENT)
    if not isinstance(intent, str) or ("intent" in fields and not intent.strip()):
        raise InvalidData(f"expected intent in {where} to be a name")
    tokens = _tokens(fields, where)
    return Utterance(
        tokens,
        _tags(fields, len(tokens), where),
        intent,
        _part(fields, where),
        _group(fields, where),
    )


def _tokens(fields: dict[str, Any], where: str) -> tuple[str, ...]:
    if ("text" in fields) == ("tokens" in fields):
        raise InvalidData(f"expected either text or tokens in {where}")
    if "text" in fields:
        text = fields["text"]
        tokens = text.split() if isinstance(text, str) else []
    else:
        tokens = fields["tokens"] if isinstance(fields["tokens"], list) else []
    if not tokens or not all(isinstance(t, str) and t.split() == [t] for t in tokens):
        raise InvalidData(f"expected at least one token, none of them with a space, in {where}")
    if (problem := size_problem(tokens)) is not None:
        raise InvalidData(f"{problem} in {where}")
    return tuple(tokens)


def _tags(fields: dict[str, Any], length: int, where: str) -> tuple[str, ...]:
    if "tags" in fields and "slots" in fields:
        raise InvalidData(f"expected either tags or slots in {where}")
    if "tags" not in fields and "slots" not in fields:
        return ("O",) * length  # a corpus of intents alone
    if "tags" in fields:
        tags = fields["tags"]
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidData(f"expected tags in {where} to be a list of names")
        if len(tags) != length:
            raise InvalidData(f"expected {length} tags in {where}, one per token, got {len(tags)}")
        require_bio(tags, where=where)
        return tuple(tags)
    return tags_of(_slots(fields["slots"], length, where), length)


def _slots(given: object, length: int, where: str) -> list[Slot]:
    slots: list[Slot] = []
    for slot in given if isinstance(given, list) else [None]:
        match slot:
            case [str(name), start, end] if (
                name.strip()
                and type(start) is type(end) is int  # true is no position
                and 0 <= start < end <= length
            ):
                slots.append((name, start, end))
            case _:
                raise InvalidData(
                    f"expected slots in {where} as [name, start, end] with"
                    f" 0 <= start < end <= {length}"
                )
    slots.sort(key=lambda slot: slot[1])
    if any(left[2] > right[1] for left, right in pairwise(slots)):
        raise InvalidData(f"expected slots in {where} that do not overlap")
    return slots


def _part(fields: dict[str, Any], where: str) -> Part:
    part = fields.get("part", "train")
    for allowed in PARTS:
        if part == allowed:
            return allowed
    raise InvalidData(f"expected part in {where} to be one of {', '.join(PARTS)}")


def _group(fields: dict[str, Any], where: str) -> str | None:
    group = fields.get("group")
    if group is None:
        return None
    if not isinstance(group, str) and type(group) is not int:
        raise InvalidData(f"expected group in {where} to be a text or an integer")
    return str(group)

"""A record becomes an utterance, or its problem: the one place that judges what was
read.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from trainables.data.bio import tags_of
from trainables.data.formats.fields import Options, Record, Span, SpanUnit, cut_finer
from trainables.data.formats.names import TAG
from trainables.data.formats.paths import quoted
from trainables.data.records import (
    NO_INTENT,
    PART_NAMES,
    Part,
    Slot,
    Utterance,
    size_problem,
)
from trainables.data.tokenization import UNSPACED, Tokenization, places, tokens_of
from trainables.errors import InvalidData

_KINDS = dict(zip("BILESUM", "BIIIBBI", strict=True))  # of BIOES and BILOU too


def utterance_of(
    record: Record, *, options: Options, unit: SpanUnit | None, adjusted: Counter[str]
) -> Utterance:
    """The utterance of a record whose spans count `unit`s. `adjusted` counts slots that
    are extended to whole tokens, and those that lose white space.

    Raises: InvalidData with the place of the record and the field, never its text.
    """
    where, tokenize = record.where, options.tokenize
    slots: list[Slot] = []
    if unit == "text":
        record, unit = replace(record, spans=_by_text(record)), "characters"
    if record.spans and unit not in ("tokens", "last-token"):
        tokens = tokens_of(record.spaced_text, tokenize=tokenize)
        slots = _token_slots(record, options, unit or "characters", adjusted)
        tags = _tags_of(slots, tokens, record, tokenize)
    else:
        tokens = (
            tokens_of(record.spaced_text) if record.tokens is None else record.tokens
        )
        tags = _tags(record, tokens, tokenize, unit)
        if record.tokens is None and tokenize != "space":
            tokens, tags = cut_finer(tokens, tags, tokenize)
    if not tokens:
        raise InvalidData(f"expected at least one token in {where}, got none")
    if record.tokens is not None and " ".join(tokens).split() != list(tokens):
        raise InvalidData(f"expected tokens without white space in {where}")
    if (problem := size_problem(tokens)) is not None:
        raise InvalidData(f"{problem} in {where}")
    return Utterance(tokens, tags, _intent(record), _part(record), record.group)


def place_of(value: str, text: str) -> tuple[int, int] | None:
    """The characters of words that a text has once; None where it has them otherwise
    often.
    """
    value = value.strip()
    if not value or value not in text:
        return None
    found: list[tuple[int, int]] = []
    start = text.find(value)
    while start >= 0 and len(found) < 2:
        end = start + len(value)
        around = text[max(0, start - 1) : start] + text[end : end + 1]
        if not re.search(r"\w", around):
            found.append((start, end))
        start = text.find(value, start + 1)
    return found[0] if len(found) == 1 else None


def _by_text(record: Record) -> tuple[Span, ...]:
    """The spans of a record where the text has their values."""
    found = []
    for span in record.spans:
        place = place_of(span.value or "", record.spaced_text)
        if place is None:
            raise InvalidData(
                f"expected the text of each of {record.read.get('slots')} once in"
                f" {record.where}"
            )
        found.append(Span(span.name, *place, span.value))
    return tuple(found)


def readings(span: Span, text: str, words: Sequence[str]) -> dict[SpanUnit, str]:
    """A span in each unit in which it is inside of a record's text, which has these
    words.
    """
    found: dict[SpanUnit, str] = {}
    _, start, end, _ = span
    if 0 <= start < end <= len(words):
        found["tokens"] = " ".join(words[start:end])
    if 0 <= start <= end < len(words):
        found["last-token"] = " ".join(words[start : end + 1])
    units: tuple[SpanUnit, ...] = ("characters", "utf-16", "bytes")
    for unit in units[: 1 if text.isascii() else 3]:
        place = _characters(text, start, end, unit)
        if place is not None:
            found[unit] = text[slice(*place)]
    return found


def _characters(text: str, start: int, end: int, unit: str) -> tuple[int, int] | None:
    """A span of characters; None where it is none of this text."""
    if unit != "characters" and not text.isascii():
        encoding, width = ("utf-16-le", 2) if unit == "utf-16" else ("utf-8", 1)
        content = text.encode(encoding)
        if not 0 <= start < end <= len(content) // width:
            return None
        try:
            before = len(content[: width * start].decode(encoding))
            return before, before + len(
                content[width * start : width * end].decode(encoding)
            )
        except UnicodeDecodeError:  # inside of a character
            return None
    return (start, end) if 0 <= start < end <= len(text) else None


def _token_slots(
    record: Record, options: Options, unit: SpanUnit, adjusted: Counter[str]
) -> list[Slot]:
    text, where, name = record.spaced_text, record.where, record.read.get("slots")
    found = places(text, tokenize=options.tokenize)
    starts, ends = [start for start, _ in found], [end for _, end in found]
    slots: list[Slot] = []
    for span in record.spans:
        place = _characters(text, span.start, span.end, unit)
        inside = range(0)
        if place is not None:
            inside = range(bisect_right(ends, place[0]), bisect_left(starts, place[1]))
        if place is None or not inside:
            _require_characters(record, span, options)
            raise InvalidData(
                f"expected {name} in {where} with 0 <= start < end <= {len(text)}"
                " characters around some word"
            )
        _require_value(record, span, text[slice(*place)])
        slots.append((span.name, inside[0], inside[-1] + 1))
        begun, ended = found[inside[0]][0], found[inside[-1]][1]
        if begun < place[0] or ended > place[1]:
            _require_characters(record, span, options)
            if UNSPACED.search(text[begun : place[0]] + text[place[1] : ended]):
                raise InvalidData(
                    f"expected {name} in {where} around whole tokens (--tokenize"
                    " characters cuts text without spaces between words, or its words"
                    " are in the field tokens)"
                )
            adjusted["extended"] += 1
        if begun > place[0] or ended < place[1]:
            adjusted["trimmed"] += 1
    return slots


def word_places(text: str, tokenize: Tokenization) -> list[tuple[int, int]]:
    """The places of words without their signs, and of tokens."""
    found = places(text, tokenize="punctuation")
    return (
        found if tokenize == "punctuation" else found + places(text, tokenize=tokenize)
    )


def _require_value(record: Record, span: Span, got: str) -> None:
    """Raises: InvalidData where the given text of a span is elsewhere. One that is
    nowhere in the text is a synonym.
    """
    if span.value is None or (value := span.value.strip()) in ("", got.strip()):
        return
    if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", record.spaced_text):
        raise InvalidData(
            f"expected {record.read.get('slots')} in {record.where} at the place of its"
            " text, which is elsewhere in the record (--spans names the unit of start"
            " and end; --spans text takes the place of the text, where it occurs once)"
        )


def _require_characters(record: Record, span: Span, options: Options) -> None:
    """Raises: InvalidData for a span, in no declared unit, that is not at the edges of
    words in characters and is in another unit.
    """
    text = record.spaced_text
    if options.spans is not None or text.isascii():
        return
    edges = {edge for place in word_places(text, options.tokenize) for edge in place}
    for unit, name in (("utf-16", "UTF-16 units"), ("bytes", "bytes of UTF-8")):
        place = _characters(text, span.start, span.end, unit)
        if place and place != (span.start, span.end) and edges.issuperset(place):
            raise InvalidData(
                f"expected {record.read.get('slots')} in {record.where} at the edges of"
                f" words, got a slot that is not there in characters, but is in {name}"
                f" (--spans characters or --spans {unit})"
            )


def _tags(
    record: Record,
    tokens: tuple[str, ...],
    tokenize: Tokenization,
    unit: SpanUnit | None,
) -> tuple[str, ...]:
    """The tags of a record whose spans, if any, count tokens."""
    name, where = record.read.get("tags"), record.where
    if record.tags is None:
        more = unit == "last-token"
        slots = [(slot, start, end + more) for slot, start, end, _ in record.spans]
        if any(not 0 <= start < end <= len(tokens) for _, start, end in slots):
            raise InvalidData(
                f"expected {record.read.get('slots')} in {where} with 0 <= start < end"
                f" <= {len(tokens)} tokens"
            )
        for span, (_, start, end) in zip(record.spans, slots, strict=True):
            _require_value(record, span, " ".join(tokens[start:end]))
        return _tags_of(slots, tokens, record, tokenize)
    if len(record.tags) != len(tokens):
        raise InvalidData(
            f"expected {len(tokens)} tags in {where}, one per token, got"
            f" {len(record.tags)}"
        )
    found = []
    for position, tag in enumerate(record.tags, start=1):
        match = TAG.fullmatch(tag)
        if match is None:
            raise InvalidData(
                f"expected O, B-name or I-name in {where}, tag {position} of {name} is"
                f" none of them"
            )
        kind = match[1]
        found.append(
            f"{_KINDS[kind.upper()]}-{'_'.join(match[2].split())}" if kind else "O"
        )
    return tuple(found)


def _tags_of(
    slots: list[Slot], tokens: tuple[str, ...], record: Record, tokenize: Tokenization
) -> tuple[str, ...]:
    ordered = sorted(set(slots), key=lambda slot: slot[1:])
    if any(left[2] > right[1] for left, right in pairwise(ordered)):
        hint = " (--tokenize punctuation cuts finer)" if tokenize == "space" else ""
        if UNSPACED.search(record.spaced_text):
            hint = " (--tokenize characters cuts text without spaces between words)"
        name = record.read.get("slots")
        raise InvalidData(
            f"expected {name} in {record.where} that share no token{hint}"
        )
    return tags_of(ordered, len(tokens))


def _intent(record: Record) -> str:
    if len(record.intents) > 1:
        name = record.read["intent"]
        key = name if re.search(r"[.[(|]", name) else quoted(name).replace('"', r"\"")
        raise InvalidData(
            f"expected one intent in {record.where}, got {len(record.intents)} in"
            f" {name} (try --intent \"join('#', to_array({key}))\")"
        )
    given = " ".join("".join(record.intents).split())  # a file has one on a line
    return given or NO_INTENT


def _part(record: Record) -> Part:
    if record.part is None:
        return "train"
    part = PART_NAMES.get(record.part.strip().lower())
    if part is None:
        raise InvalidData(
            f"expected part in {record.where} to be one of {', '.join(PART_NAMES)}"
        )
    return part

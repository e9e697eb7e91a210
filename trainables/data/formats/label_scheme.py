"""A record becomes an utterance, or its problem: the one place that judges what was
read.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
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

Place = tuple[int, int]  # first character, one past the last
_OF_TOKENS = ("tokens", "last-token")
_KINDS = dict(zip("BILESUM", "BIIIBBI", strict=True))  # of BIOES and BILOU too


def utterance_of(
    record: Record, *, options: Options, unit: SpanUnit | None, adjusted: Counter[str]
) -> Utterance:
    """The utterance of a record whose spans count `unit`s. `adjusted` counts slots that
    are extended to whole tokens, and those that lose white space.

    Raises: InvalidData with the place of the record and the field, never its text.
    """
    where, text, tokenize = record.where, record.spaced_text, options.tokenize
    is_placed = bool(record.spans) and unit not in _OF_TOKENS
    if record.tokens is not None and not is_placed:
        if text.split() != list(record.tokens):
            raise InvalidData(f"expected tokens without white space in {where}")
        tokenize = "space"
    if record.tags is None or is_placed:
        tokens = tokens_of(text, tokenize=tokenize)
        slots = _slots(record, options, tokenize, unit, adjusted)
        tags = _tags_of(slots, tokens, record, options.tokenize)
    else:
        words = tokens_of(text)
        tokens, tags = cut_finer(words, _own_tags(record, len(words)), tokenize)
    if not tokens:
        raise InvalidData(f"expected at least one token in {where}, got none")
    if (problem := size_problem(tokens)) is not None:
        raise InvalidData(f"{problem} in {where}")
    return Utterance(tokens, tags, _intent(record), _part(record), record.group)


def place_of(
    span: Span, text: str, words: Sequence[Place], unit: SpanUnit
) -> Place | None:
    """The characters of a span that counts `unit`s, where the `words` of the text have
    these places; None where the text has none such.
    """
    start, end = span.start, span.end
    if unit == "text":
        return place_once(span.value or "", text)
    if unit in _OF_TOKENS:
        last = end - (unit == "tokens")
        is_there = 0 <= start <= last < len(words)
        return (words[start][0], words[last][1]) if is_there else None
    if unit == "characters" or text.isascii():
        return (start, end) if 0 <= start < end <= len(text) else None
    encoding, width = ("utf-16-le", 2) if unit == "utf-16" else ("utf-8", 1)
    content = text.encode(encoding)
    if not 0 <= start < end <= len(content) // width:
        return None
    try:
        before = len(content[: width * start].decode(encoding))
        inside = content[width * start : width * end].decode(encoding)
    except UnicodeDecodeError:  # inside of a character
        return None
    return before, before + len(inside)


def place_once(value: str, text: str) -> Place | None:
    """The characters of words that a text has once; None where it has them otherwise
    often.
    """
    value = value.strip()
    if not value or value not in text:
        return None
    found: list[Place] = []
    start = text.find(value)
    while start >= 0 and len(found) < 2:
        end = start + len(value)
        around = text[max(0, start - 1) : start] + text[end : end + 1]
        if not re.search(r"\w", around):
            found.append((start, end))
        start = text.find(value, start + 1)
    return found[0] if len(found) == 1 else None


def is_at_words(place: Place, text: str, tokenize: Tokenization) -> bool:
    """Whether a place begins and ends at edges of words without their signs, or of
    tokens.
    """
    start, end = place
    around, inside = (
        text[max(0, start - 1) : start] + text[end : end + 1],
        text[start:end],
    )
    if not around.strip() and inside == inside.strip():
        return True  # whole words, which most spans are
    found = {*places(text, tokenize="punctuation"), *places(text, tokenize=tokenize)}
    return {start, end} <= {edge for each in found for edge in each}


def _slots(
    record: Record,
    options: Options,
    tokenize: Tokenization,
    unit: SpanUnit | None,
    adjusted: Counter[str],
) -> list[Slot]:
    """The slots of a record's spans, in tokens."""
    if not record.spans:
        return []
    text, where, name = record.spaced_text, record.where, record.read.get("slots")
    found = places(text, tokenize=tokenize)
    unit, words = unit or "characters", found
    if tokenize != "space" and unit in _OF_TOKENS:
        words = places(text)
    starts, ends = [start for start, _ in found], [end for _, end in found]
    slots: list[Slot] = []
    for span in record.spans:
        place = place_of(span, text, words, unit)
        first, last = place or (0, 0)
        inside = range(bisect_right(ends, first), bisect_left(starts, last))
        begun = starts[inside[0]] if inside else first
        ended = ends[inside[-1]] if inside else last
        is_cut = begun < first or ended > last
        if is_cut or not inside:
            _require_characters(record, span, options, unit)
        if not inside:
            if unit == "text":
                raise InvalidData(
                    f"expected the text of each of {name} once in {where}"
                )
            size = f"{len(text)} characters around some word"
            if unit in _OF_TOKENS:
                size = f"{len(words)} tokens"
            raise InvalidData(
                f"expected {name} in {where} with 0 <= start < end <= {size}"
            )
        _require_value(record, span, text[first:last])
        slots.append((span.name, inside[0], inside[-1] + 1))
        if is_cut:
            if UNSPACED.search(text[begun:first] + text[last:ended]):
                raise InvalidData(
                    f"expected {name} in {where} around whole tokens (--tokenize"
                    " characters cuts text without spaces between words, or its words"
                    " are in the field tokens)"
                )
            adjusted["extended"] += 1
        if begun > first or ended < last:
            adjusted["trimmed"] += 1
    return slots


def _require_value(record: Record, span: Span, got: str) -> None:
    """Raises: InvalidData where the given text of a span is elsewhere. One that is
    nowhere in the text is a synonym.
    """
    value = (span.value or "").strip()
    if not value or value.split() == got.split():
        return
    if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", record.spaced_text):
        raise InvalidData(
            f"expected {record.read.get('slots')} in {record.where} at the place of its"
            " text, which is elsewhere in the record (--spans names the unit of start"
            " and end; --spans text takes the place of the text, where it occurs once)"
        )


def _require_characters(
    record: Record, span: Span, options: Options, unit: SpanUnit
) -> None:
    """Raises: InvalidData for a span, in no declared unit, that is not at the edges of
    words in characters and is in another unit.
    """
    text = record.spaced_text
    if options.spans is not None or unit != "characters" or text.isascii():
        return
    others: dict[SpanUnit, str] = {"utf-16": "UTF-16 units", "bytes": "bytes of UTF-8"}
    for other, name in others.items():
        place = place_of(span, text, (), other)
        if place not in (None, span[1:3]) and is_at_words(
            place, text, options.tokenize
        ):
            raise InvalidData(
                f"expected {record.read.get('slots')} in {record.where} at the edges of"
                f" words, got a slot that is not there in characters, but is in {name}"
                f" (--spans characters or --spans {other})"
            )


def _own_tags(record: Record, length: int) -> tuple[str, ...]:
    """The tags that a record of so many words has, as BIO."""
    where, given = record.where, record.tags or ()
    if len(given) != length:
        raise InvalidData(
            f"expected {length} tags in {where}, one per token, got {len(given)}"
        )
    found = []
    for position, tag in enumerate(given, start=1):
        match = TAG.fullmatch(tag)
        if match is None:
            raise InvalidData(
                f"expected O, B-name or I-name in {where}, tag {position} of"
                f" {record.read.get('tags')} is none of them"
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

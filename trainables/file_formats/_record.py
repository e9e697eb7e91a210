"""One record of a file, and its conversion to an utterance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from trainables.data.bio import tags_of
from trainables.data.bio_files import PART_FOLDERS, require_bio
from trainables.data.records import NO_INTENT, Part, Slot, Utterance, size_problem
from trainables.data.tokenization import Tokenization, places, tokens_of
from trainables.errors import InvalidData

SpanUnit = Literal["tokens", "characters"]
PARTS: dict[str, Part] = {
    **PART_FOLDERS,
    "training": "train",
    "val": "validation",
    "eval": "validation",
    "testing": "test",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Reading options of a file: the fields (or columns, by name or number) of text, intent, tags,
    slots, part and group where their names are unusual; the tokenization; the unit of spans; the
    separator of several intents of a record; whether columns have names (None: detected by the
    usual names).
    """

    text: str | None = None
    intent: str | None = None
    tags: str | None = None
    slots: str | None = None
    part: str | None = None
    group: str | None = None
    tokenize: Tokenization = "space"
    spans: SpanUnit | None = None
    intent_separator: str | None = None
    header: bool | None = None


class Span(NamedTuple):
    """A slot of a file; `value` is its text where the file contains it."""

    name: str
    start: int
    end: int
    value: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One utterance of a file. It has `text` or `tokens`, and `tags`, `spans` or neither.

    `unit` is the unit of spans where the format fixes it. `where` is file and line, for messages;
    `ignored` are names of fields that are not read.
    """

    where: str
    text: str | None = None
    tokens: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    spans: tuple[Span, ...] | None = None
    unit: SpanUnit | None = None
    intents: tuple[str, ...] = ()
    part: str | None = None
    group: str | None = None
    ignored: tuple[str, ...] = ()

    @property
    def spaced_text(self) -> str:
        """The text, or the tokens with one space between them."""
        return " ".join(self.tokens or ()) if self.text is None else self.text


def utterance_of(record: Record, *, options: Options, unit: SpanUnit | None) -> Utterance:
    """The utterance of a record; spans count `unit`s.

    Raises: InvalidData with the place of the record, never its text.
    """
    tokens, tags = _tokens_and_tags(record, options.tokenize, unit)
    if not tokens:
        raise InvalidData(f"expected at least one token in {record.where}, got none")
    if any(token.split() != [token] for token in tokens):
        raise InvalidData(f"expected tokens without white space in {record.where}")
    if (problem := size_problem(tokens)) is not None:
        raise InvalidData(f"{problem} in {record.where}")
    return Utterance(
        tokens,
        tags,
        _intent(record, options.intent_separator),
        _part(record),
        record.group,
    )


def token_spans(record: Record, *, tokenize: Tokenization) -> tuple[list[Slot], int]:
    """Slots in tokens of a record whose spans count characters, and how many of them begin or end
    inside a token and are extended to the whole token.

    Raises: InvalidData for a span outside of the text, or around white space alone.
    """
    text, found, snapped = record.spaced_text, places(record.spaced_text, tokenize=tokenize), 0
    slots: list[Slot] = []
    for name, start, end, _ in record.spans or ():
        inside = [i for i, (low, high) in enumerate(found) if low < end and high > start]
        if not 0 <= start < end <= len(text) or not inside:
            raise InvalidData(
                f"expected slots in {record.where} with 0 <= start < end <= {len(text)} characters"
                " around some word"
            )
        slots.append((name, inside[0], inside[-1] + 1))
        begun, ended = found[inside[0]][0], found[inside[-1]][1]
        snapped += begun < start or ended > end
    return slots, snapped


def _tokens_and_tags(
    record: Record, tokenize: Tokenization, unit: SpanUnit | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if record.spans and unit == "characters":
        tokens = tokens_of(record.spaced_text, tokenize=tokenize)
        slots, _ = token_spans(record, tokenize=tokenize)
        return tokens, _tags_of(slots, len(tokens), record.where, tokenize)
    if record.tokens is not None:
        return record.tokens, _tags_of_tokens(record, record.tokens, tokenize)
    words = tokens_of(record.spaced_text)  # which tags and spans of tokens count
    return cut_finer(words, _tags_of_tokens(record, words, tokenize), tokenize)


def cut_finer(
    words: tuple[str, ...], tags: tuple[str, ...], tokenize: Tokenization
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words cut by a tokenization, and the tags of the pieces.

    >>> cut_finer(("call", "ann,"), ("O", "B-who"), "punctuation")
    (('call', 'ann', ','), ('O', 'B-who', 'I-who'))
    """
    cut = [tokens_of(word, tokenize=tokenize) for word in words]
    finer = [
        f"I{tag[1:]}" if place and tag != "O" else tag
        for pieces, tag in zip(cut, tags, strict=True)
        for place in range(len(pieces))
    ]
    return tuple(piece for pieces in cut for piece in pieces), tuple(finer)


def _tags_of_tokens(
    record: Record, tokens: tuple[str, ...], tokenize: Tokenization
) -> tuple[str, ...]:
    """The tags of a record whose spans, if any, count tokens."""
    if record.tags is not None:
        if len(record.tags) != len(tokens):
            raise InvalidData(
                f"expected {len(tokens)} tags in {record.where}, one per token,"
                f" got {len(record.tags)}"
            )
        require_bio(list(record.tags), where=record.where)
        return tuple(_without_spaces(tag) for tag in record.tags)
    slots = [(name, start, end) for name, start, end, _ in record.spans or ()]
    if any(not 0 <= start < end <= len(tokens) for _, start, end in slots):
        raise InvalidData(
            f"expected slots in {record.where} with 0 <= start < end <= {len(tokens)} tokens"
        )
    return _tags_of(slots, len(tokens), record.where, tokenize)


def _tags_of(slots: list[Slot], length: int, where: str, tokenize: Tokenization) -> tuple[str, ...]:
    ordered = sorted(slots, key=lambda slot: slot[1:])
    if any(left[2] > right[1] for left, right in pairwise(ordered)):
        hint = " (--tokenize punctuation cuts finer)" if tokenize == "space" else ""
        raise InvalidData(f"expected slots in {where} that share no token{hint}")
    named = [(_without_spaces(name), start, end) for name, start, end in ordered]
    if not all(name for name, _, _ in named):
        raise InvalidData(f"expected each slot in {where} to have a name")
    return tags_of(named, length)


def _without_spaces(name: str) -> str:
    """A name of a slot or a tag without white space, at which files of tags are cut."""
    return "_".join(name.split())


def _intent(record: Record, separator: str | None) -> str:
    given = [" ".join(intent.split()) for intent in record.intents]  # a file has one on a line
    if separator is not None:
        given = sorted({piece.strip() for intent in given for piece in intent.split(separator)})
        given = [intent for intent in given if intent]
        return separator.join(given) or NO_INTENT
    if len(given) > 1:
        raise InvalidData(
            f"expected one intent in {record.where}, got {len(given)}"
            " (--intent-separator declares several)"
        )
    return given[0] if given and given[0] else NO_INTENT


def _part(record: Record) -> Part:
    if record.part is None:
        return "train"
    part = PARTS.get(record.part.strip().lower())
    if part is None:
        raise InvalidData(f"expected part in {record.where} to be one of {', '.join(PARTS)}")
    return part

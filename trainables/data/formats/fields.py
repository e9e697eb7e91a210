"""A row with named fields becomes a record, by the names that the tools of the field
write.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from trainables.data.bio import parse_annotation
from trainables.data.formats.marks import marked
from trainables.data.formats.names import (
    EITHER,
    END,
    LAST,
    LENGTH,
    NAME,
    NAMES,
    SENTENCE,
    SINGLE,
    START,
    VALUE,
    are_spans,
    listed,
)
from trainables.data.formats.paths import name_among, suggested, value_at
from trainables.data.tokenization import Tokenization, tokens_of
from trainables.errors import InvalidData, kind_of

SpanUnit = Literal["tokens", "characters", "utf-16", "bytes", "last-token", "text"]
INNER = "entities inside of others"
JOINED = "spans with BIO marks"
Marks = Literal["brackets", "elements", "colons", "braces"]


@dataclass(frozen=True, kw_only=True, eq=False)  # a key of caches
class Options:
    """Reading options of a file: the fields (or columns, by name or number, or JMESPath
    expressions) of text, tokens, intent, tags, slots, part and group where their names
    are unusual; the tokenization; the unit
    of spans; how slots are marked in the text; the names of numbered tags, separated by
    commas; whether columns have names (None: detected by the usual names); the encoding
    (None: detected).
    """

    text: str | None = None
    tokens: str | None = None
    intent: str | None = None
    tags: str | None = None
    slots: str | None = None
    part: str | None = None
    group: str | None = None
    tokenize: Tokenization = "space"
    spans: SpanUnit | None = None
    marks: Marks | None = None
    names: str | None = None
    header: bool | None = None
    encoding: str | None = None


class Span(NamedTuple):
    """A slot of a file; `value` is its text where the file contains it."""

    name: str
    start: int
    end: int
    value: str | None = None


@dataclass(kw_only=True, slots=True)
class Record:
    """One utterance of a file. It has `text` or `tokens`, and `tags`, `spans` or
    neither.

    `where` is file and line, for messages; `read` the names of the fields by their
    roles, `unread` the other fields, `nothing` the roles whose option finds nothing.
    """

    where: str
    text: str | None = None
    tokens: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    spans: tuple[Span, ...] = ()
    intents: tuple[str, ...] = ()
    part: str | None = None
    group: str | None = None
    read: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, Any] = field(default_factory=dict)
    nothing: tuple[str, ...] = ()

    @property
    def spaced_text(self) -> str:
        """The text, or the tokens with one space between them."""
        return " ".join(self.tokens or ()) if self.text is None else self.text


_WORDS = ("text", "tokens", "annotated")
_USUAL = {*SENTENCE}.union(*NAMES.values())


def is_usual(name: str) -> bool:
    """Whether it is the usual name of some field, in any case."""
    return name.strip().lower() in _USUAL


def has_text(fields: Mapping[str, Any], options: Options) -> bool:
    """Whether some field is known to contain the text."""
    with suppress(InvalidData):
        for role, _, given in _by_role(fields, options, where=""):
            if role in _WORDS and given not in (None, "", [], {}):
                return True
    return False


def hint(options: Options, records: Iterable[Any]) -> str:
    """The options that read these records, in brackets."""
    found = "" if options.text or options.tokens else suggested(records)
    return f" (try {found})" if found else " (--text names another)"


def record_of(
    fields: Mapping[str, Any],
    *,
    where: str,
    options: Options,
    notes: Counter[str],
    part: str | None = None,
) -> Record:
    """One record; `notes` counts what is dropped.

    Raises: InvalidData that names `where` and the field, never a value.
    """
    read: dict[str, str] = {}
    value: dict[str, Any] = {}
    for role, name, given in _by_role(fields, options, where):
        read[role], value[role] = name, given
    if isinstance(value.get("text"), list):
        read["tokens"], value["tokens"] = read.pop("text"), value.pop("text")
    if value.keys().isdisjoint(_WORDS):
        raise InvalidData(
            f"expected a field for the words in {where}, such as {NAMES['text'][0]} or"
            f" {NAMES['tokens'][0]}"
        )
    text = value.get("text")
    if text is not None and not isinstance(text, str):
        raise InvalidData(
            f"expected {read['text']} in {where} to be text, got {kind_of(text)}"
        )
    if options.marks is not None and text is not None:
        if value.keys() & {"tokens", "tags", "slots"}:
            raise InvalidData(f"expected no --marks in {where}, which has slots")
        found = marked(text, options.marks, where, notes)
        text, value["slots"], read["slots"] = found["text"], found["slots"], "marks"
    tokens = _words(value.get("tokens"), read.get("tokens"), where)
    of_numbers = options.names.split(",") if options.names is not None else None
    tags = _words(numbered(value.get("tags"), of_numbers), read.get("tags"), where)
    if isinstance(value.get("annotated"), str):
        text = None  # it is cut at white space and at the edges of marks, or finer
        annotation = parse_annotation(value["annotated"], where=where)
        tokens, tags = cut_finer(*annotation, options.tokenize)
        read.pop("text", None)
    used = {*read.values()} if len(read) < len(fields) else {*fields}
    return Record(
        where=where,
        text=text,
        tokens=tokens,
        tags=tags,
        spans=_spans(value.get("slots"), read.get("slots", ""), where, notes),
        intents=_intents(value.get("intent"), read.get("intent"), where),
        part=_word(value.get("part", part), read.get("part"), where),
        group=_word(value.get("group"), read.get("group"), where),
        read=read,
        unread={name: fields[name] for name in fields if name not in used},
        nothing=tuple(role for role, given in value.items() if given is None),
    )


def _by_role(
    fields: Mapping[str, Any], options: Options, where: str
) -> Iterator[tuple[str, str, Any]]:
    """Each role that a field has, its name and its value, those of words first."""
    for role, names, is_own in _candidates(tuple(fields), options):
        for name in names:
            if name in fields:
                given = fields[name]
            else:
                given = value_at(fields, name, where=where, option=role)
            if is_own or not (
                given is None or given == "" or _is_other(role, name.lower(), given)
            ):
                yield role, name, given
                break


@lru_cache(maxsize=1_000)
def _candidates(
    names: tuple[str, ...], options: Options
) -> list[tuple[str, tuple[str, ...], bool]]:
    """The fields that may have each role: the one of an option (then True), or those
    with usual names in any case.
    """
    spelled = {name.strip().lower(): name for name in reversed(names)}
    labels = [
        name_among(given, names)
        for given in (options.intent, options.tags, options.slots)
        if given is not None
    ]
    found: list[tuple[str, tuple[str, ...], bool]] = []
    for role, usual in NAMES.items():
        own = getattr(options, role, None)
        if own is not None:
            found.append((role, (name_among(own, names) or own,), True))
        elif options.text is None or role not in ("tokens", "annotated"):
            there = (spelled[name] for name in usual if name in spelled)
            fitting = (n for n in there if n not in labels or role == "text")
            found.append((role, tuple(fitting), False))
    return found


def _is_other(role: str, name: str, value: Any) -> bool:
    """Whether a field with a usual name of a role is something else."""
    if name in SINGLE and isinstance(value, str):
        return True
    if role == "annotated":
        return name in NAMES[role] and isinstance(value, dict | list)
    if name in EITHER:
        return are_spans(value) != (role == "slots")
    # Tokens of a parser have their places.
    return (
        role == "tokens"
        and isinstance(value, list)
        and isinstance([*value, ""][0], dict)
    )


def _words(value: Any, name: str | None, where: str) -> tuple[str, ...] | None:
    """A list of words: a list, the text of one, or a text cut at white space."""
    if value is None:
        return None
    value = listed(value.lstrip()) if isinstance(value, str) else value
    if isinstance(value, str):
        value = value.split()
    if isinstance(value, list) and any(type(each) is int for each in value):
        raise InvalidData(
            f"expected {name} in {where} to be a list of words, got numbers, whose"
            " names the file lacks (--names O,B-city,I-city gives yours in the order of"
            " the numbers, from 0)"
        )
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidData(f"expected {name} in {where} to be a list of words")
    return tuple(value)


def numbered(value: Any, names: Sequence[str] | None) -> Any:
    """Names instead of their numbers, of one or of a list; None of a number without."""
    if names is None:
        return value
    if isinstance(value, list):
        return [numbered(each, names) for each in value]
    if type(value) is int:
        return names[value] if 0 <= value < len(names) else None
    return value


def _intents(value: Any, name: str | None, where: str) -> tuple[str, ...]:
    """A name or several; of scores by name those of a half or more."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            value = value["name"]
        elif all(isinstance(score, int | float) for score in value.values()):
            value = [each for each, score in value.items() if score >= 0.5]
    found = value if isinstance(value, list) else [] if value is None else [value]
    if any(isinstance(each, bool) or not isinstance(each, str | int) for each in found):
        raise InvalidData(
            f"expected {name} in {where} to be a name, got {kind_of(value)} (--intent"
            " names the field)"
        )
    return tuple(str(each) for each in found)


def _word(value: Any, name: str | None, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidData(
            f"expected {name} in {where} to be a name, got {kind_of(value)}"
        )
    return str(value)


def _spans(value: Any, name: str, where: str, notes: Counter[str]) -> tuple[Span, ...]:
    """Each span once."""
    value = listed(value)
    if isinstance(value, dict) and all(
        isinstance(each, list) for each in value.values()
    ):
        value = [
            dict(zip(value, each, strict=False))
            for each in zip(*value.values(), strict=False)
        ]
    if value is None or value == "":
        return ()
    if not isinstance(value, list):
        raise InvalidData(
            f"expected {name} in {where} to be a list of spans, got {kind_of(value)}"
        )
    spans = [_span(each, name, where, notes) for each in value]
    found: dict[tuple[Any, ...], Span] = {}
    for span in _joined_spans(spans, notes):
        found.setdefault(span[:3], span)
    return tuple(found.values())


def _joined_spans(spans: list[Span], notes: Counter[str]) -> list[Span]:
    """Spans whose names are BIO tags, as a tagger gives one a word or a piece of one,
    as whole ones; others as they are.
    """
    if not all(span.name[:2] in ("B-", "I-") for span in spans):
        return spans
    notes[JOINED] += len(spans)
    found: list[Span] = []
    for span in sorted(spans, key=lambda each: each[1:3]):
        mark, _, name = span.name.partition("-")
        last = found[-1] if found else span
        if mark == "I" and last.name == name and span.start - last.end <= 1:
            found[-1] = Span(name, last.start, span.end)
        else:
            found.append(span._replace(name=name))
    return found


def _span(value: Any, field_name: str, where: str, notes: Counter[str]) -> Span:
    """[name, start, end], [start, end, name], or an object with these under usual
    names.
    """
    texts: list[Any]
    if isinstance(value, dict) and (keys := _keys(tuple(value))) is not None:
        name, start, end, *texts = map(value.get, keys)
        if isinstance(name, list) and len(name) == 1:  # of Label Studio
            name = name[0]
        if isinstance(value.get("role"), str) and isinstance(name, str):
            name = f"{name}.{value['role']}"
        notes["groups of entities"] += value.get("group") is not None
        _count_inner(value, notes)
        if type(start) is type(end) is int:
            end += {LAST: 1, LENGTH: start}.get(keys[2], 0)
    elif isinstance(value, list) and len(value) in (3, 4):
        name, start, end, *texts = value
        if not isinstance(name, str):
            name, start, end = end, name, start
    else:
        raise InvalidData(
            f"expected {field_name} in {where} as [name, start, end] or objects with"
            " name, start and end"
        )
    words = name.split() if isinstance(name, str) else ()
    if type(start) is not int or type(end) is not int or not words:
        raise InvalidData(
            f"expected {field_name} in {where} with a name and whole numbers"
        )
    given = [text for text in texts if isinstance(text, str)]
    return Span("_".join(words), start, end, given[0] if given else None)


def _count_inner(value: Mapping[str, Any], notes: Counter[str]) -> None:
    """Count the entities inside of an entity, which no tag can hold, by name."""
    for inner in (x for v in value.values() if isinstance(v, list) for x in v):
        keys = _keys(tuple(inner)) if isinstance(inner, dict) else None
        if keys is not None:
            notes[f"{INNER} ({inner[keys[0]]})"] += 1
            _count_inner(inner, notes)


@lru_cache(maxsize=1_000)
def _keys(given: tuple[str, ...]) -> tuple[str, ...] | None:
    """The keys of name, start and end (or length), then those of its text; None where
    one of three lacks.
    """
    found = [
        next((k for k in names if k in given), "")
        for names in (NAME, START, [*END, LENGTH])
    ]
    return (*found, *(key for key in VALUE if key in given)) if all(found) else None


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

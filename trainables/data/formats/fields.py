"""A row with named fields becomes a record, by the names that the tools of the field
write.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from trainables.data.bio import parse_annotation
from trainables.data.tokenization import Tokenization, tokens_of
from trainables.errors import InvalidData, kind_of
from trainables.io.documents import DocumentProblem, parse_json

SpanUnit = Literal["tokens", "characters", "utf-16", "bytes", "last-token"]
# The first name of a role that a row has is used.
NAMES: dict[str, tuple[str, ...]] = {
    "text": (
        *(
            "text",
            "utterance",
            "sentence",
            "query",
            "utt",
            "phrase",
            "question",
            "raw_text",
        ),
        *("äußerung", "satz", "anfrage"),
    ),
    "tokens": ("tokens", "words"),
    "annotated": ("annot_utt", "annotation", "answer_annotation"),
    "intent": (
        *(
            "intent",
            "intents",
            "intent_name",
            "label",
            "labels",
            "category",
            "class",
            "cats",
        ),
        *("choice", "absicht", "kategorie"),
    ),
    "tags": ("tags", "bio", "bio_tags", "ner_tags", "slot_tags", "iob"),
    "slots": ("slots", "entities", "spans", "ents", "label", "labels", "annotations"),
    "part": ("part", "split", "partition"),
    "group": ("group",),
}
_TASK = "annotations."  # before the names of Label Studio's controls
_SEARCHED = {
    role: (*names, *(_TASK + name for name in names)) for role, names in NAMES.items()
}
# Of the record, or of its spans.
_EITHER = ("label", "labels", f"{_TASK}label", f"{_TASK}labels")
_NAME = (
    "slot",
    "slot_name",
    "entity",
    "label",
    "labels",
    "name",
    "type",
    "tag",
    "entity_type",
)
_START = ("start", "start_char", "begin", "start_offset", "startPos")
_LAST = "endPos"  # of LUIS: the last character
_END = ("end", "end_char", "stop", "end_offset", _LAST)
_VALUE = ("text", "value", "word")
_LONGEST_LITERAL = 100_000


@dataclass(frozen=True, kw_only=True, eq=False)  # a key of caches
class Options:
    """Reading options of a file: the fields (or columns, by name or number) of text,
    intent, tags, slots, part and group where their names are unusual; the tokenization;
    the unit of spans; whether columns have names (None: detected by the usual names);
    the encoding (None: detected).
    """

    text: str | None = None
    intent: str | None = None
    tags: str | None = None
    slots: str | None = None
    part: str | None = None
    group: str | None = None
    tokenize: Tokenization = "space"
    spans: SpanUnit | None = None
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
    roles, `unread` the other fields.
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

    @property
    def spaced_text(self) -> str:
        """The text, or the tokens with one space between them."""
        return " ".join(self.tokens or ()) if self.text is None else self.text


def is_usual(name: str) -> bool:
    """Whether it is the usual name of some field."""
    return any(name in names for names in NAMES.values())


def has_text(fields: Mapping[str, Any], options: Options) -> bool:
    """Whether some field is known to contain the text."""
    names = (*NAMES["text"], *NAMES["tokens"], *NAMES["annotated"])
    return options.text in fields or any(name in fields for name in names)


def fields_of(value: Any) -> dict[str, Any] | None:
    """The named fields of one record of a JSON file; None of what is none: an object,
    spaCy's pairs of a text and its labels, a task of Label Studio, a text in pieces of
    Snips.
    """
    if isinstance(value, dict) and "data" not in value:
        return value
    match value:
        case [str(text), dict(labels)]:
            return {"text": text, **labels}
        case [str(text), str(intent)]:
            return {"text": text, "intent": intent}
        case {"data": dict(data)}:
            return {**data, **_of_tasks(value)}
        case {"data": [{"text": str()}, *_] as pieces} if all(map(_is_piece, pieces)):
            return {
                **{key: value[key] for key in value if key != "data"},
                **_joined(pieces),
            }
    return value if isinstance(value, dict) else None


def _of_tasks(task: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of a task of Label Studio by the names of its controls."""
    given = task.get("annotations", task.get("completions"))
    tried = given if isinstance(given, list) else []
    done = [
        each
        for each in tried
        if isinstance(each, dict) and not each.get("was_cancelled")
    ]
    if len(done) > 1:
        raise InvalidData("expected one annotation of the task")
    found: dict[str, Any] = {}
    for result in done[0].get("result") or [] if done else []:
        value = result.get("value") if isinstance(result, dict) else None
        if not isinstance(value, dict):
            raise InvalidData("expected a value of each result")
        name = f"{_TASK}{result.get('from_name')}"
        found.setdefault(name, []).extend(value.get("choices", [value]))
    return found


def _is_piece(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() <= {
        "text",
        "entity",
        "slot_name",
        "slot",
    }


def _joined(pieces: list[Any]) -> dict[str, Any]:
    text, spans = "", []
    for piece in pieces:
        words = piece.get("text")
        if not isinstance(words, str):
            raise InvalidData("expected a text of each piece of data")
        name = piece.get("slot_name") or piece.get("entity")
        if name is not None:
            spans.append([name, len(text), len(text) + len(words), words])
        text += words
    return {"text": text, "slots": spans}


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
    for role, names in _candidates(tuple(fields), options):
        for name in names:
            if name not in fields:
                raise InvalidData(
                    f"expected the field {name} (--{role}) in {where}, got none"
                )
            given = fields[name]
            if name == getattr(options, role, None) or not (
                given is None or given == "" or _is_other(role, name, given)
            ):
                read[role] = name
                break
    if "text" in read and isinstance(fields[read["text"]], list):
        read["tokens"] = read.pop("text")
    value = {role: fields[name] for role, name in read.items()}
    if not value.keys() & {"text", "tokens", "annotated"}:
        raise InvalidData(
            f"expected a field for the words in {where}, such as {NAMES['text'][0]} or"
            f" {NAMES['tokens'][0]} (--text names another)"
        )
    text = value.get("text")
    if text is not None and not isinstance(text, str):
        raise InvalidData(
            f"expected {read['text']} in {where} to be text, got {kind_of(text)}"
        )
    tokens = _words(value.get("tokens"), read.get("tokens"), where)
    tags = _words(value.get("tags"), read.get("tags"), where)
    if isinstance(value.get("annotated"), str):
        text = None  # it is cut at white space and at the edges of marks, or finer
        marked = parse_annotation(value["annotated"], where=where)
        tokens, tags = cut_finer(*marked, options.tokenize)
        read.pop("text", None)
    unread: dict[str, Any] = {}
    if len(read) < len(fields):
        used = set(read.values())
        unread = {name: fields[name] for name in fields if name not in used}
    return Record(
        where=where,
        text=text,
        tokens=tokens,
        tags=tags,
        spans=tuple(_spans(value.get("slots"), read.get("slots", ""), where, notes)),
        intents=_intents(value.get("intent"), read.get("intent"), where),
        part=_word(value.get("part", part), read.get("part"), where),
        group=_word(value.get("group"), read.get("group"), where),
        read=read,
        unread=unread,
    )


@lru_cache(maxsize=1_000)
def _candidates(
    names: tuple[str, ...], options: Options
) -> list[tuple[str, tuple[str, ...]]]:
    """The fields that may have each role: the one of an option, or those with usual
    names.
    """
    labels = (options.intent, options.tags, options.slots)
    found: list[tuple[str, tuple[str, ...]]] = []
    for role, usual in _SEARCHED.items():
        own = getattr(options, role, None)
        if own is not None:
            found.append((role, (own,)))
        elif options.text is None or role not in ("tokens", "annotated"):
            there = tuple(
                n for n in usual if n in names and (n not in labels or role == "text")
            )
            found += [(role, there)] if there else []
    return found


def _is_other(role: str, name: str, value: Any) -> bool:
    """Whether a field with a usual name of a role is something else."""
    if name in _EITHER:
        return are_spans(value) != (role == "slots")
    # Tokens of a parser have their places.
    return (
        role == "tokens"
        and isinstance(value, list)
        and isinstance([*value, ""][0], dict)
    )


def are_spans(value: Any) -> bool:
    """Whether a value of a field is a list of spans, or the text of one."""
    if isinstance(value, str):
        value = literal(value) if value[:1] in ("[", "{") else None
    return isinstance(value, list) and all(
        isinstance(each, list | dict) for each in value[:1]
    )


def literal(text: str) -> Any:
    """The value of a JSON text, or of what Python prints of a list; None where it is
    none.
    """
    try:
        return parse_json(text)
    except DocumentProblem:
        pass
    try:
        return ast.literal_eval(text[:_LONGEST_LITERAL])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _words(value: Any, name: str | None, where: str) -> tuple[str, ...] | None:
    """A list of words: a list, the text of one, or a text cut at white space."""
    if value is None:
        return None
    if isinstance(value, str):
        found = literal(value) if value.lstrip().startswith("[") else None
        value = value.split() if found is None else found
    if isinstance(value, list) and any(type(each) is int for each in value):
        raise InvalidData(
            f"expected {name} in {where} to be a list of words, got numbers, whose"
            " names the file lacks"
        )
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidData(f"expected {name} in {where} to be a list of words")
    return tuple(value)


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


def _spans(value: Any, name: str, where: str, notes: Counter[str]) -> Iterator[Span]:
    if isinstance(value, str):
        found = literal(value)
        value = value if found is None else found
    if isinstance(value, dict) and all(
        isinstance(each, list) for each in value.values()
    ):
        value = [
            dict(zip(value, each, strict=False))
            for each in zip(*value.values(), strict=False)
        ]
    if value is None and name == "":
        return
    if not isinstance(value, list):
        raise InvalidData(
            f"expected {name} in {where} to be a list of spans, got {kind_of(value)}"
        )
    seen: set[tuple[Any, ...]] = set()
    for each in value:
        span = _span(each, name, where, notes)
        if span[:3] not in seen:
            seen.add(span[:3])
            yield span


def _span(value: Any, field_name: str, where: str, notes: Counter[str]) -> Span:
    """[name, start, end], [start, end, name], or an object with these under usual
    names.
    """
    given: Any = None
    if isinstance(value, dict) and (keys := _keys(tuple(value))) is not None:
        name, start, end = value[keys[0]], value[keys[1]], value[keys[2]]
        given = next(
            (value[key] for key in keys[3:] if isinstance(value[key], str)), None
        )
        if isinstance(name, list) and len(name) == 1:  # of Label Studio
            name = name[0]
        if isinstance(value.get("role"), str) and isinstance(name, str):
            name = f"{name}.{value['role']}"
        notes["groups of entities"] += value.get("group") is not None
        if keys[2] == _LAST and type(end) is int:
            end += 1
    elif isinstance(value, list) and len(value) in (3, 4):
        first, second, third, *rest = value
        is_first = isinstance(first, str)
        name, start, end = (
            (first, second, third) if is_first else (third, first, second)
        )
        given = rest[0] if rest and isinstance(rest[0], str) else None
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
    return Span("_".join(words), start, end, given)


@lru_cache(maxsize=1_000)
def _keys(given: tuple[str, ...]) -> tuple[str, ...] | None:
    """The keys of name, start and end, then those of its text; None where one of three
    lacks.
    """
    found = [
        next((k for k in names if k in given), "") for names in (_NAME, _START, _END)
    ]
    return (*found, *(key for key in _VALUE if key in given)) if all(found) else None


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

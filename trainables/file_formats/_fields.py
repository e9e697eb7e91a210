"""Records from named fields, with the usual alternative names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainables.data.annotation import parse_annotation
from trainables.errors import InvalidData
from trainables.file_formats._lines import json_value
from trainables.file_formats._record import Options, Record, Span, cut_finer
from trainables.files import object_lines

# The first name that occurs in a record is used.
NAMES: dict[str, tuple[str, ...]] = {
    "text": ("text", "utterance", "sentence", "query", "utt", "phrase", "question"),
    "tokens": ("tokens", "words"),
    "annotated": ("annot_utt", "annotation"),
    "intent": ("intent", "intents", "label", "intent_name", "category"),
    "tags": ("tags", "bio", "bio_tags", "ner_tags", "slot_tags", "iob"),
    "slots": ("slots", "entities", "spans"),
    "part": ("part", "split", "partition"),
    "group": ("group",),
}
_NAME = ("slot", "entity", "label", "name", "type", "tag", "slot_name", "entity_type")
_START = ("start", "start_char", "begin", "start_offset")
_END = ("end", "end_char", "stop", "end_offset")
_VALUE = ("text", "value", "word")


def has_text(fields: Mapping[str, Any], options: Options) -> bool:
    """Whether some field is known to contain the text."""
    names = (*NAMES["text"], *NAMES["tokens"], *NAMES["annotated"])
    return options.text in fields or any(name in fields for name in names)


def records_of_lines(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """The record of every line with a JSON object, in order, or the problem of the line."""
    for found in object_lines(path):
        if isinstance(found, InvalidData):
            yield found
            continue
        where, fields = found
        yield record_of(fields, where=where, options=options)


def record_of(fields: Mapping[str, Any], *, where: str, options: Options) -> Record | InvalidData:
    """One record, or its problem, which names `where` and the field, never a value."""
    try:
        return _record_of(fields, where, options)
    except InvalidData as problem:
        return problem


def _record_of(fields: Mapping[str, Any], where: str, options: Options) -> Record:
    chosen = {role: _field(role, fields, options, where) for role in NAMES}
    if options.text is not None and isinstance(fields[options.text], list):
        chosen |= {"tokens": options.text, "text": None}
    if all(chosen[role] is None for role in ("text", "tokens", "annotated")):
        raise InvalidData(
            f"expected a field for the words in {where}, such as {NAMES['text'][0]} or"
            f" {NAMES['tokens'][0]} (--text names another)"
        )
    value = {role: None if name is None else fields[name] for role, name in chosen.items()}
    text = value["text"]
    if text is not None and not isinstance(text, str):
        raise InvalidData(f"expected {chosen['text']} in {where} to be text")
    read = set(chosen.values())
    tokens = _names(value["tokens"], chosen["tokens"], where)
    tags = _names(value["tags"], chosen["tags"], where)
    if isinstance(value["annotated"], str):
        text = None  # it is cut at white space and at the edges of marks, or finer
        marked = parse_annotation(value["annotated"], where=where)
        tokens, tags = cut_finer(*marked, options.tokenize)
    return Record(
        where=where,
        text=text,
        tokens=tokens,
        tags=tags,
        spans=_spans(value["slots"], chosen["slots"], where),
        intents=_intents(value["intent"], chosen["intent"], where),
        part=_word(value["part"], chosen["part"], where),
        group=_word(value["group"], chosen["group"], where),
        ignored=tuple(str(name) for name in fields if name not in read),
    )


def _field(role: str, fields: Mapping[str, Any], options: Options, where: str) -> str | None:
    own: str | None = getattr(options, role, None)
    if own is not None:
        if own not in fields:
            raise InvalidData(f"expected the field {own} (--{role}) in {where}, got none")
        return own
    if role == "tokens" and options.text is not None:
        return None
    return next((name for name in NAMES[role] if fields.get(name) not in (None, "")), None)


def _names(value: Any, field: str | None, where: str) -> tuple[str, ...] | None:
    """A list of words: a list, JSON of one, or a text cut at white space."""
    if value is None:
        return None
    if isinstance(value, str):
        found = json_value(value) if value.lstrip().startswith("[") else None
        value = value.split() if found is None else found
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidData(f"expected {field} in {where} to be a list of words")
    return tuple(value)


def _intents(value: Any, field: str | None, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in found):
        raise InvalidData(f"expected {field} in {where} to be a name (--intent names the field)")
    return tuple(found)


def _word(value: Any, field: str | None, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidData(f"expected {field} in {where} to be a name")
    return str(value)


def _spans(value: Any, field: str | None, where: str) -> tuple[Span, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = json_value(value)
    if not isinstance(value, list):
        raise InvalidData(f"expected {field} in {where} to be a list of spans")
    return tuple(_span(each, field, where) for each in value)


def _span(value: Any, field: str | None, where: str) -> Span:
    """[name, start, end], [start, end, name], or an object with these under usual names."""
    if isinstance(value, dict):
        keys = [next((k for k in names if k in value), None) for names in (_NAME, _START, _END)]
        if None not in keys:
            text = next((value[k] for k in _VALUE if isinstance(value.get(k), str)), None)
            value = [*(value[k] for k in keys if k is not None), text]
    match value:
        case [str(name), int(start), int(end), *rest] if len(rest) <= 1:
            pass
        case [int(start), int(end), str(name), *rest] if len(rest) <= 1:
            pass
        case _:
            raise InvalidData(
                f"expected {field} in {where} as [name, start, end] or objects with name, start"
                " and end"
            )
    if isinstance(start, bool) or isinstance(end, bool) or not name.strip():
        raise InvalidData(f"expected {field} in {where} with a name and whole numbers")
    given = rest[0] if rest and isinstance(rest[0], str) else None
    return Span(name, start, end, given)

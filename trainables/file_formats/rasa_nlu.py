"""Rasa NLU: YAML with examples of each intent, slots as `[value](slot)`, in one file or a folder.

A slot with a role is `slot.role`. Synonyms, lookup tables and regexes are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trainables.data.records import NO_INTENT, Utterance
from trainables.documents import DocumentProblem, format_yaml, parse_yaml
from trainables.errors import InvalidData
from trainables.file_formats._lines import json_value
from trainables.file_formats._marks import text_with_marks
from trainables.file_formats._record import Options, Record, Span
from trainables.files import file_text

LACKS: frozenset[str] = frozenset({"part", "group"})
SUFFIX = ".yml"
_MAX_BYTES = 64 << 20
_SUFFIXES = (".yml", ".yaml")
_NLU = re.compile(r"^nlu\s*:", re.MULTILINE)
# [value](slot), [value](slot:synonym) or [value]{"entity": "slot"}
_MARK = re.compile(r"\[([^\[\]]+)\](?:\(([^():]+)(?::[^()]*)?\)|(\{[^{}]*\}))")


def recognizes(path: Path) -> bool:
    """Whether it is a YAML file with `nlu:`, or a folder with such files."""
    for file in _files(path):
        try:
            if _NLU.search(file_text(file, max_bytes=_MAX_BYTES)):
                return True
        except InvalidData:
            continue
    return False


def read(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """The examples of all intents, file by file."""
    for file in _files(path):
        try:
            document = parse_yaml(file_text(file, max_bytes=_MAX_BYTES))
        except DocumentProblem as problem:  # whose words may quote a scalar
            yield InvalidData(f"expected YAML in {file}{problem.at}")
            continue
        items = document.get("nlu") if isinstance(document, dict) else None
        for number, item in enumerate(items if isinstance(items, list) else (), start=1):
            if isinstance(item, dict) and "intent" in item:
                yield from _examples(item, where=f"{file}, item {number} of nlu")


def write(path: Path, utterances: Iterable[Utterance], *, slots: bool) -> None:
    """Write a new file; the order of records is kept, so an intent may come several times.

    Raises: InvalidData for a record without an intent, and for a text with brackets.
    """
    items: list[tuple[str, list[str]]] = []
    for number, utterance in enumerate(utterances, start=1):
        if utterance.intent == NO_INTENT:
            raise InvalidData(f"expected an intent in record {number}: Rasa NLU lists them by it")
        if not items or items[-1][0] != utterance.intent:
            items.append((utterance.intent, []))
        items[-1][1].append(f"- {_marked_text(utterance, number)}\n")
    nlu = [{"intent": intent, "examples": "".join(texts)} for intent, texts in items]
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(format_yaml({"version": "3.1", "nlu": nlu}))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix.lower() in _SUFFIXES)
    return [path] if path.is_file() and path.suffix.lower() in _SUFFIXES else []


def _examples(item: dict[str, Any], *, where: str) -> Iterator[Record | InvalidData]:
    intent, examples = item["intent"], item.get("examples")
    if not isinstance(intent, str):
        yield InvalidData(f"expected intent in {where} to be a name")
        return
    if isinstance(examples, str):
        texts = [line.strip().removeprefix("-").strip() for line in examples.split("\n")]
        examples = [text for text in texts if text]
    if not isinstance(examples, list):
        yield InvalidData(f"expected examples in {where}, each behind a dash")
        return
    for number, example in enumerate(examples, start=1):
        text = example.get("text") if isinstance(example, dict) else example
        at = f"{where}, example {number}"
        yield (
            _record(text.strip(), intent, at)
            if isinstance(text, str)
            else InvalidData(f"expected a text in {at}")
        )


def _record(marked: str, intent: str, where: str) -> Record | InvalidData:
    text, spans, done = "", [], 0
    for mark in _MARK.finditer(marked):
        name = mark[2] or _name(mark[3])
        if name is None:
            return InvalidData(f"expected a mark with an entity in {where}")
        text += marked[done : mark.start()]
        spans.append(Span(name, len(text), len(text) + len(mark[1])))
        text += mark[1]
        done = mark.end()
    text += marked[done:]
    return Record(where=where, text=text, spans=tuple(spans), unit="characters", intents=(intent,))


def _name(mark: str) -> str | None:
    found = json_value(mark)
    entity = found.get("entity") if isinstance(found, dict) else None
    if not isinstance(entity, str):
        return None
    role = found.get("role")
    return f"{entity}.{role}" if isinstance(role, str) else entity


def _marked_text(utterance: Utterance, number: int) -> str:
    return text_with_marks(
        utterance,
        number,
        mark=lambda name, text: f"[{text}]({name})",
        no_tokens="[](){}",
        no_names="():",
    )

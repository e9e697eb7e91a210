"""Rasa NLU: examples of each intent with slots marked in place, in YAML or in Markdown
(1.x).
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainables.errors import InvalidData
from trainables.io.documents import DocumentProblem, parse_yaml

_NLU = re.compile(r"^nlu\s*:|^##\s*intent\s*:", re.MULTILINE)
_HEADING = re.compile(r"##\s*(\w+)\s*:?\s*(.*)")
_NAME = re.compile(r"""\(\s*("?)([^():"\[\]{}]+)\1\s*(?::([^()]*))?\)""")
_SKIPPED = "lines without a dash or behind #"
Example = tuple[str, dict[str, Any]]


def recognizes(text: str) -> bool:
    """Whether it is YAML with `nlu:`, or Markdown with `## intent:`."""
    return _NLU.search(text) is not None


def examples(
    path: Path, text: str, notes: Counter[str]
) -> Iterator[Example | InvalidData]:
    """(item and example, fields) of every example of all intents, or its problem.
    `notes` counts what is not read.
    """
    items: Any
    if not re.search(r"^nlu\s*:", text, re.MULTILINE):
        items = _of_markdown(text)
    else:
        try:
            document = parse_yaml(text)
        except DocumentProblem as problem:  # whose words may quote a scalar
            yield InvalidData(f"expected YAML in {path}{problem.at}")
            return
        items = document.get("nlu") if isinstance(document, dict) else None
    for number, item in enumerate(items if isinstance(items, list) else (), start=1):
        at = f"{path}, item {number} of nlu"
        if not isinstance(item, dict) or "intent" not in item:
            kinds = (
                [key for key in item if key != "examples"]
                if isinstance(item, dict)
                else []
            )
            notes[f"{[*kinds, 'other'][0]} items"] += 1
            continue
        listed = item.get("examples")
        if isinstance(listed, str):
            listed = list(_dashed(listed, notes))
        if not isinstance(listed, list):
            yield InvalidData(f"expected examples in {at}, each behind a dash")
            continue
        for place, example in enumerate(listed, start=1):
            words = example.get("text") if isinstance(example, dict) else example
            where = f"{at}, example {place}"
            if isinstance(item["intent"], bool):
                yield InvalidData(
                    f"expected intent in {where} to be a name: quote yes and no"
                )
            elif not isinstance(item["intent"], str | int):
                yield InvalidData(f"expected intent in {where} to be a name")
            elif not isinstance(words, str):
                yield InvalidData(f"expected a text in {where}")
            else:
                try:
                    yield (
                        where,
                        {
                            **_marked(words.strip(), where, notes),
                            "intent": item["intent"],
                        },
                    )
                except InvalidData as problem:
                    yield problem


def _of_markdown(text: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for line in text.split("\n"):
        if heading := _HEADING.match(line):
            items.append({heading[1]: heading[2].strip(), "examples": ""})
        elif items:
            items[-1]["examples"] += re.sub(r"^\s*\*\s", "- ", line) + "\n"
    return items


def _dashed(text: str, notes: Counter[str]) -> Iterator[str]:
    for line in map(str.strip, text.split("\n")):
        if line.startswith("-"):
            if words := line.removeprefix("-").strip():
                yield words
        else:
            notes[_SKIPPED] += bool(line)


def _marked(marked: str, where: str, notes: Counter[str]) -> dict[str, Any]:
    """The text and the slots of `[value](slot)`, `[value](slot:synonym)` or
    `[value]{"entity": "slot"}`. Raises: InvalidData for a bracket that is part of none.
    """
    text, slots, rest = "", [], marked
    while "[" in rest or "]" in rest:
        before, _, behind = rest.partition("[")
        value, closed, rest = behind.partition("]")
        name, end = _name(rest, notes) if closed else (None, 0)
        if "]" in before or "[" in value or not value.strip() or name is None:
            raise InvalidData(
                f"expected each bracket in {where} to mark a slot, [value](slot) or"
                ' [value]{"entity": "slot"}, without spaces between and not in one'
                " another"
            )
        text += before
        slots.append([name, len(text), len(text) + len(value), value])
        text += value
        rest = rest[end:]
    return {"text": text + rest, "slots": slots}


def _name(rest: str, notes: Counter[str]) -> tuple[str | None, int]:
    """The slot's name behind a marked value, and where the mark ends."""
    if match := _NAME.match(rest):
        notes["synonyms"] += match[3] is not None
        return match[2].strip() or None, match.end()
    try:
        found, end = json.JSONDecoder().raw_decode(rest)
    except (ValueError, RecursionError):
        return None, 0
    entity = found.get("entity") if isinstance(found, dict) else None
    if not isinstance(entity, str):
        return None, 0
    notes["groups of entities"] += "group" in found
    notes["synonyms"] += "value" in found
    role = found.get("role")
    return f"{entity}.{role}" if isinstance(role, str) else entity, end

"""Rasa NLU: examples of each intent with slots marked in place, in YAML."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainables.data.formats.marks import brackets
from trainables.errors import InvalidData
from trainables.io.documents import DocumentProblem, parse_yaml

_NLU = re.compile(r"^nlu\s*:|^##\s*intent\s*:", re.MULTILINE)
_HEADING = re.compile(r"^##\s*(\w+)\s*:?(.*)$", re.MULTILINE)
_ITEM = re.compile(r"\s*- \w+\s*:")
_MOST_LOST = 100  # lines of a file
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
    is_yaml = re.search(r"^nlu\s*:", text, re.MULTILINE)
    for _ in range(_MOST_LOST):
        try:
            document = parse_yaml(text, typed=False) if is_yaml else _of_markdown(text)
            break
        except DocumentProblem as problem:  # whose words may quote a scalar
            yield InvalidData(f"expected YAML in {path}{problem.at}")
            text = _without(text, problem.line)
    else:
        return
    items = document.get("nlu") if isinstance(document, dict) else None
    for number, item in enumerate(items if isinstance(items, list) else (), start=1):
        at = f"{path}, item {number} of nlu"
        if not isinstance(item, dict) or "intent" not in item:
            keys = item if isinstance(item, dict) else ()
            kinds = [key for key in keys if key != "examples"]
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
            where, intent = f"{at}, example {place}", item["intent"]
            try:
                if not isinstance(intent, str) or not intent:
                    raise InvalidData(f"expected intent in {where} to be a name")
                if not isinstance(words, str):
                    raise InvalidData(f"expected a text in {where}")
                yield where, brackets(words.strip(), where, notes) | {"intent": intent}
            except InvalidData as problem:
                yield problem


def _without(text: str, number: int) -> str:
    """YAML without a line that cannot be read: a blank one is in its place, also for
    the rest of the item that begins with it.
    """
    lines = text.split("\n")
    end = number
    if _ITEM.match(lines[number - 1]):
        others = range(number, len(lines))
        end = next((n for n in others if _ITEM.match(lines[n])), len(lines))
    return "\n".join([*lines[: number - 1], *[""] * (end - number + 1), *lines[end:]])


def _of_markdown(text: str) -> dict[str, Any]:
    """Markdown as the YAML of the same examples."""
    _, *found = _HEADING.split(re.sub(r"^\s*\*\s", "- ", text, flags=re.MULTILINE))
    headings = zip(found[::3], found[1::3], found[2::3], strict=True)
    return {"nlu": [{k: name.strip(), "examples": of} for k, name, of in headings]}


def _dashed(text: str, notes: Counter[str]) -> Iterator[str]:
    for line in map(str.strip, text.split("\n")):
        if line.startswith("-"):
            if words := line.removeprefix("-").strip():
                yield words
        else:
            notes[_SKIPPED] += bool(line)

"""Inspection of a file of utterances: problems by line, counts of labels, parts and groups. Names
of labels and numbers, never a text."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from sweep.planning.own_data.corpus import LabelCounts, slot_names
from trainables.data.records import LabelSchema, Part, Utterance
from trainables.data.storage import text_hash
from trainables.errors import InvalidData
from trainables.file_formats import Source

SHOWN, _MOST_KINDS = 5, 20  # problems of a kind that are listed; the rest is counted
_SIGNS = re.compile(r"[^\w\s]|_")
_DIGITS = re.compile(r"\d+")


@dataclass
class Inspection(LabelCounts):
    """Counts of a file. `near` counts validation and test records that differ from some training
    record only in case, punctuation, numbers or the order of words; `repeated` those equal to one.
    """

    num_read: int = 0
    num_problems: int = 0
    problems: dict[str, list[str]] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    lengths: array[int] = field(default_factory=lambda: array("i"))
    groups: Counter[str] = field(default_factory=Counter)
    groups_in_parts: int = 0
    repeated: int = 0
    near: int = 0

    def add_problem(self, sentence: str) -> None:
        """Count a problem; the first ones of a kind, which differ by numbers alone, are kept."""
        self.num_problems += 1
        kind = _DIGITS.sub("#", sentence)
        if kind not in self.problems and len(self.problems) == _MOST_KINDS:
            kind = "other problems"
        self.kinds[kind] += 1
        if len(listed := self.problems.setdefault(kind, [])) < SHOWN:
            listed.append(sentence)


def inspect(source: Source, schema: LabelSchema | None = None) -> Inspection:
    """One pass. With a schema, a label outside of it is a problem."""
    found = Inspection()
    seen: dict[int, Part] = {}
    near: defaultdict[int, set[Part]] = defaultdict(set)
    shapes: list[tuple[int, Part]] = []
    group_parts: defaultdict[str, set[Part]] = defaultdict(set)
    for where, utterance in source.located_utterances():
        found.num_read += 1
        if isinstance(utterance, InvalidData):
            found.add_problem(str(utterance))
            continue
        if schema is not None:
            _require_labels(found, utterance, schema, where)
        if utterance.group is not None:
            found.groups[utterance.group] += 1
            group_parts[utterance.group].add(utterance.part)
        key = text_hash(utterance.tokens)
        if key in seen:
            found.num_duplicates += 1
            found.repeated += "train" in (seen[key], utterance.part) and seen[key] != utterance.part
            continue
        seen[key] = utterance.part
        found.add(utterance)
        found.lengths.append(len(utterance.tokens))
        shape = _shape(utterance)
        near[shape].add(utterance.part)
        shapes.append((shape, utterance.part))
    found.near = sum(part != "train" and "train" in near[shape] for shape, part in shapes)
    found.groups_in_parts = sum(len(parts) > 1 for parts in group_parts.values())
    return found


def _require_labels(
    found: Inspection, utterance: Utterance, schema: LabelSchema, where: str
) -> None:
    # A label is not quoted, because with a wrong column it would be a text.
    if utterance.intent not in schema.intents:
        found.add_problem(f"expected an intent of the schema in {where}")
    if not slot_names(utterance) <= set(schema.slots):
        found.add_problem(f"expected only slots of the schema in {where}")


def _shape(utterance: Utterance) -> int:
    """Equal for texts that differ only in case, punctuation, numbers or the order of words."""
    text = _DIGITS.sub("0", _SIGNS.sub(" ", " ".join(utterance.tokens).lower()))
    words = " ".join(sorted(text.split()))
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little")

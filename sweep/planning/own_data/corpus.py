"""Writes a source of utterances as a corpus in this project's format, and counts its records.

Where a file has no parts, a record's part depends on its text or its group alone. A record that is
added later moves no other one, equal texts are never in two parts, and a group is never split.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainables.data.records import NO_INTENT, LabelSchema, Part, Utterance
from trainables.data.storage import PARTS, normalise, text_hash
from trainables.datasets.json_lines import line
from trainables.errors import InvalidData, InvalidInput
from trainables.file_formats import Source

FEW = 5  # a label with fewer records reveals something about them
_PERSON = b"own data parts"  # separates this use of the hash from others
_SHARE = 10  # percent of the records for a part that the file lacks


def slot_names(utterance: Utterance) -> frozenset[str]:
    """The names of its slots."""
    return frozenset(tag[2:] for tag in utterance.tags if tag != "O")


@dataclass
class LabelCounts:
    """Distinct records by part, intent and names of slots, and how many more have an equal text."""

    labels: Counter[tuple[Part, str, frozenset[str]]] = field(default_factory=Counter)
    num_duplicates: int = 0

    def add(self, utterance: Utterance) -> None:
        """Count a record."""
        self.labels[utterance.part, utterance.intent, slot_names(utterance)] += 1

    @property
    def parts(self) -> Counter[Part]:
        """Records of each part."""
        found: Counter[Part] = Counter()
        for (part, _, _), count in self.labels.items():
            found[part] += count
        return found

    @property
    def by_label(self) -> dict[str, dict[str, Counter[Part]]]:
        """Records of each intent and of each slot by part, the commonest label first."""
        found: dict[str, dict[str, Counter[Part]]] = {"intents": {}, "slots": {}}
        for (part, intent, names), count in self.labels.items():
            for kind, some in (("intents", {intent} - {NO_INTENT}), ("slots", names)):
                for name in some:
                    found[kind].setdefault(name, Counter())[part] += count
        return {
            kind: dict(sorted(of.items(), key=lambda item: (-item[1].total(), item[0])))
            for kind, of in found.items()
        }


@dataclass
class CorpusCounts(LabelCounts):
    """The counts of a written corpus, and records left out."""

    num_invalid: int = 0
    why: str = ""  # of the parts

    @property
    def num_labels(self) -> int:
        """Intents and slots."""
        return sum(map(len, self.by_label.values()))

    @property
    def num_rare(self) -> int:
        """Labels with fewer than `FEW` records."""
        return sum(some.total() < FEW for of in self.by_label.values() for some in of.values())

    def outside(self, schema: LabelSchema) -> Counter[Part]:
        """Records of each part with a label that a schema lacks, which no model is trained on."""
        intents, slots = set(schema.intents), set(schema.slots)
        found: Counter[Part] = Counter()
        for (part, intent, names), count in self.labels.items():
            if intent not in intents or not names <= slots:
                found[part] += count
        return found

    def schema(self, *, source: str, least: int) -> LabelSchema:
        """The labels of at least so many records, sorted, which the owner declares public."""
        intents, slots = (
            tuple(sorted(name for name, some in of.items() if some.total() >= least))
            for of in self.by_label.values()
        )
        if not self.by_label["intents"]:
            intents = (NO_INTENT,)
        return LabelSchema(intents, slots, source=source)


def write_corpus(source: Source, path: Path, *, skip_invalid: bool = False) -> CorpusCounts:
    """Write all records of a source as JSON lines; a missing part is split off the training part.

    Raises: InvalidInput for records that cannot be read, unless they are to be skipped.
    """
    parts = frozenset(source.survey.parts)
    counted = CorpusCounts(why=_why(parts))
    write_lines(path, _read_and_count(source, counted, parts, skip_invalid), source)
    if not counted.labels:
        raise InvalidInput(f"expected utterances in {source.path}, got none that can be read")
    return counted


def convert(source: Source, to: Path, *, only: Part | None, skip_invalid: bool) -> dict[str, int]:
    """Write all records of a source as JSON lines, or those of one part; returns their numbers.

    Raises: InvalidInput for records that cannot be read, unless they are to be skipped; no file is
        then left.
    """
    counts = {"num_records": 0, "num_invalid": 0}

    def chosen() -> Iterator[Utterance]:
        for found in source.utterances():
            if isinstance(found, Utterance):
                if only in (None, found.part):
                    counts["num_records"] += 1
                    yield found
            elif skip_invalid:
                counts["num_invalid"] += 1
            else:
                raise InvalidInput(
                    f"{found} (--skip-invalid leaves such records out; `sweep data check` lists"
                    " them)"
                )

    fresh = to.with_name(f".{to.name}.partial")
    try:
        write_lines(fresh, chosen(), source)
        fresh.replace(to)
    finally:
        fresh.unlink(missing_ok=True)
    return counts


def write_lines(path: Path, utterances: Iterable[Utterance], source: Source) -> None:
    """Write a new file of JSON lines; without slots in the source no record has tags."""
    with path.open("x", encoding="utf-8", newline="\n") as file:
        for utterance in utterances:
            file.write(line(utterance, slots=source.has_slots))


def _why(parts: frozenset[Part]) -> str:
    missing = [part for part in PARTS if part not in parts]
    if not missing:
        return "as in the data"
    of = "all records" if parts == {"train"} else "the training records"
    cut = " and ".join(f"{_SHARE} % of {of} for {part}" for part in missing if part != "train")
    return f"{cut}, by a hash of each text or group"


def _read_and_count(
    source: Source,
    counted: CorpusCounts,
    parts: frozenset[Part],
    skip_invalid: bool,
) -> Iterator[Utterance]:
    seen: set[int] = set()
    first: InvalidData | None = None
    for found in source.utterances():
        if isinstance(found, InvalidData):
            first = first or found
            counted.num_invalid += 1
            continue
        utterance = found if found.part != "train" else _with_part(found, parts)
        key = text_hash(utterance.tokens)
        if key in seen:  # a corpus has equal texts once
            counted.num_duplicates += 1
        else:
            seen.add(key)
            counted.add(utterance)
        yield utterance
    if first is not None and not skip_invalid:
        more = counted.num_invalid - 1
        rest = f" (and {more} more; `sweep data check` lists them)" if more else ""
        raise InvalidInput(f"{first}{rest} (--skip-invalid leaves them out)")


def _with_part(utterance: Utterance, parts: frozenset[Part]) -> Utterance:
    validation = 0 if "validation" in parts else _SHARE
    test = 0 if "test" in parts else _SHARE
    part = part_of(utterance, validation=validation, test=test)
    return utterance if part == utterance.part else replace(utterance, part=part)


def part_of(utterance: Utterance, *, validation: int, test: int) -> Part:
    """The part of a record: `validation` and `test` are percent of all, the rest trains.

    >>> part_of(Utterance(("hi",), ("O",), "greet"), validation=0, test=100)
    'test'
    """
    key = utterance.group
    text = f"text {normalise(utterance.tokens)}" if key is None else f"group {key}"
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=_PERSON).digest()
    share = int.from_bytes(digest, "little") % 10_000 / 100
    if share < test:
        return "test"
    return "validation" if share < test + validation else "train"

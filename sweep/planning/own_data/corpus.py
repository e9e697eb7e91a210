"""Writes a source of utterances as a corpus in this project's format, and counts its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from sweep.planning.own_data.parts import part_of
from trainables import catalogue
from trainables.data.bio import slots_lenient
from trainables.data.records import NO_INTENT, LabelSchema, Part, Utterance
from trainables.data.storage import PARTS, text_hash
from trainables.errors import InvalidData, InvalidInput
from trainables.file_formats import Source

FEW = 5  # a label with fewer records reveals something about them
_SHARE = 10  # percent of the records for a part that the file lacks


@dataclass
class CorpusCounts:
    """Distinct records of each part, records of each label, records left out. `labels` counts
    records by part, intent and names of slots.
    """

    parts: Counter[Part] = field(default_factory=Counter)
    intents: Counter[str] = field(default_factory=Counter)
    slots: Counter[str] = field(default_factory=Counter)
    labels: Counter[tuple[Part, str, frozenset[str]]] = field(default_factory=Counter)
    num_duplicates: int = 0
    num_invalid: int = 0
    why: str = ""  # of the parts

    @property
    def num_rare(self) -> int:
        """Labels with fewer than `FEW` records."""
        return sum(count < FEW for of in (self.intents, self.slots) for count in of.values())

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
            tuple(sorted(name for name, count in of.items() if count >= least))
            for of in (self.intents, self.slots)
        )
        return LabelSchema(intents if self.intents else (NO_INTENT,), slots, source=source)


def write_corpus(
    source: Source,
    path: Path,
    *,
    form: str,
    skip_invalid: bool = False,
) -> CorpusCounts:
    """Write all records of a source in a format of the shelf; a missing part is split off the
    training part.

    Raises: InvalidInput for records that cannot be read, unless they are to be skipped.
    """
    parts = _parts_of(source)
    counted = CorpusCounts(why=_why(parts))
    records = _read_and_count(source, counted, parts, skip_invalid=skip_invalid)
    catalogue.entry("file_formats", form).write(path, records, slots=source.has_slots)
    if not counted.parts:
        raise InvalidInput(f"expected utterances in {source.path}, got none that can be read")
    return counted


def _parts_of(source: Source) -> frozenset[Part]:
    """The parts of the source."""
    return frozenset(u.part for u in source.utterances() if isinstance(u, Utterance))


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
    *,
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
        _count(utterance, counted, seen)
        yield utterance
    if first is not None and not skip_invalid:
        more = counted.num_invalid - 1
        rest = f" (and {more} more; `sweep data check` lists them)" if more else ""
        raise InvalidInput(f"{first}{rest} (--skip-invalid leaves them out)")


def _with_part(utterance: Utterance, parts: frozenset[Part]) -> Utterance:
    validation = 0 if "validation" in parts else _SHARE
    test = 0 if "test" in parts else _SHARE
    return replace(utterance, part=part_of(utterance, validation=validation, test=test))


def _count(utterance: Utterance, counted: CorpusCounts, seen: set[int]) -> None:
    key = text_hash(utterance.tokens)
    if key in seen:  # a corpus has equal texts once
        counted.num_duplicates += 1
        return
    seen.add(key)
    counted.parts[utterance.part] += 1
    if utterance.intent != NO_INTENT:
        counted.intents[utterance.intent] += 1
    slots = frozenset(name for name, _, _ in slots_lenient(utterance.tags))
    counted.slots.update(slots)
    counted.labels[utterance.part, utterance.intent, slots] += 1

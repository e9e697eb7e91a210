"""Inspection of a file of utterances: problems by line, counts of labels, parts and
groups, and what they say in sentences. Names of labels and numbers, never a text.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from trainables import formats
from trainables.data.bio import slots_lenient
from trainables.data.formats import Source, Survey
from trainables.data.formats.fields import INNER, JOINED
from trainables.data.formats.marks import FORMS
from trainables.data.formats.names import NAMES
from trainables.data.records import NO_INTENT, LabelSchema, Part, Utterance
from trainables.data.sizes import rounded_size
from trainables.data.storage import PARTS, text_hash
from trainables.errors import InvalidData, one_line

FEW = 5  # a label with fewer records reveals something about them
SHOWN, _MOST_KINDS = 5, 20  # problems of a kind that are listed; the rest is counted
_FEW_IN_ALL = 1_000
_LARGE_GROUP = 0.05  # share of the records
_SAMPLES, _SAMPLE_CHARACTERS = 3, 400
_MARKED = 0.05  # share of the records from which something is no accident
_MANY = 5  # intents that are enough to see whether they are labels
_MOST_NAMES = 8  # of fields, in a sentence
_SIGNS = re.compile(r"[^\w\s]|_")
_DIGITS = re.compile(r"\d+")


@dataclass
class Inspection:
    """Counts of a file. `labels` are those of distinct records by part, intent and
    names of slots, `num_duplicates` how many more have an equal text, `num_different` of
    which differ in case. `near` counts
    validation and test records that differ from some training record only in case,
    punctuation, numbers or the order of words; `repeated` those equal to one.
    """

    labels: Counter[tuple[Part, str, frozenset[str]]] = field(default_factory=Counter)
    num_duplicates: int = 0
    num_different: int = 0
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
        """Count a problem; the first ones of a kind, which differ by numbers alone, are
        kept.
        """
        self.num_problems += 1
        kind = _DIGITS.sub("#", sentence)
        if kind not in self.problems and len(self.problems) == _MOST_KINDS:
            kind = "other problems"
        self.kinds[kind] += 1
        if len(listed := self.problems.setdefault(kind, [])) < SHOWN:
            listed.append(sentence)

    @property
    def parts(self) -> Counter[Part]:
        """Records of each part."""
        found: Counter[Part] = Counter()
        for (part, _, _), count in self.labels.items():
            found[part] += count
        return found

    @property
    def by_label(self) -> dict[str, dict[str, Counter[Part]]]:
        """Records of each intent and of each slot by part, the commonest label
        first.
        """
        found: dict[str, dict[str, Counter[Part]]] = {"intents": {}, "slots": {}}
        for (part, intent, names), count in self.labels.items():
            for kind, some in (("intents", {intent} - {NO_INTENT}), ("slots", names)):
                for name in some:
                    found[kind].setdefault(name, Counter())[part] += count
        return {
            kind: dict(sorted(of.items(), key=lambda item: (-item[1].total(), item[0])))
            for kind, of in found.items()
        }

    @property
    def num_labels(self) -> int:
        """Intents and slots."""
        return sum(map(len, self.by_label.values()))

    @property
    def num_rare(self) -> int:
        """Labels with fewer than `FEW` records."""
        return sum(
            some.total() < FEW for of in self.by_label.values() for some in of.values()
        )

    def outside(self, schema: LabelSchema) -> Counter[Part]:
        """Records of each part with a label that a schema lacks, which no model is
        trained on.
        """
        found: Counter[Part] = Counter()
        for (part, intent, names), count in self.labels.items():
            if intent not in schema.intents or not names <= {*schema.slots}:
                found[part] += count
        return found

    def schema(self, *, source: str, least: int) -> LabelSchema:
        """The labels of at least so many records, sorted, which the owner declares
        public.
        """
        intents, slots = (
            tuple(sorted(name for name, some in of.items() if some.total() >= least))
            for of in self.by_label.values()
        )
        if not self.by_label["intents"]:
            intents = (NO_INTENT,)
        return LabelSchema(intents, slots, source=source)


def slot_names(utterance: Utterance) -> frozenset[str]:
    """The names of its slots."""
    return frozenset(tag[2:] for tag in utterance.tags if tag != "O")


def inspect(
    utterances: Iterable[tuple[str, Utterance | InvalidData]],
    schema: LabelSchema | None = None,
) -> Inspection:
    """One pass over utterances or their problems, each with its file and line. With a
    schema, a label outside of it is a problem.
    """
    found = Inspection()
    seen: dict[int, Part] = {}
    exact: set[int] = set()
    shapes: list[tuple[int, Part]] = []
    group_parts: defaultdict[str, set[Part]] = defaultdict(set)
    for where, utterance in utterances:
        found.num_read += 1
        if isinstance(utterance, InvalidData):
            found.add_problem(str(utterance))
            continue
        if schema is not None:
            _require_labels(found, utterance, schema, where)
        if utterance.group is not None:
            found.groups[utterance.group] += 1
            group_parts[utterance.group].add(utterance.part)
        key, spelled = text_hash(utterance.tokens), hash(utterance.tokens)
        if key in seen:
            found.num_duplicates += 1
            found.num_different += spelled not in exact
            exact.add(spelled)
            found.repeated += (
                "train" in (seen[key], utterance.part) and seen[key] != utterance.part
            )
            continue
        seen[key] = utterance.part
        exact.add(spelled)
        found.labels[utterance.part, utterance.intent, slot_names(utterance)] += 1
        found.lengths.append(len(utterance.tokens))
        shapes.append((_shape(utterance), utterance.part))
    trained = {shape for shape, part in shapes if part == "train"}
    found.near = sum(part != "train" and shape in trained for shape, part in shapes)
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
    """Equal, within a process, for texts that differ only in case, punctuation, numbers
    or the order of words.
    """
    text = _DIGITS.sub("0", _SIGNS.sub(" ", " ".join(utterance.tokens).lower()))
    return hash(tuple(sorted(text.split())))


def read_as(source: Source) -> dict[str, Any]:
    """How a file was read, as plain data: names of its fields and counts."""
    survey = source.survey
    names = {role: sorted(x for by, x in survey.read if by == role) for role in NAMES}
    return {
        "form": source.form,
        "encoding": ", ".join(source.encodings),
        "span_unit": source.unit,
        "read": {role: of for role, of in names.items() if of},
        "unread": survey.ignored,
        "overlooked": {k: each.option for k, each in survey.overlooked.items()},
        "num_read": survey.num_records,
        "num_with_intent": survey.with_intent,
        "num_with_slot": survey.with_slots,
        "num_extended": source.adjusted["extended"],
        "num_trimmed": source.adjusted["trimmed"],
        "notes": dict(survey.notes),
    }


def reading(source: Source) -> Iterator[str]:
    """The same in sentences. The counts of adjusted slots are those of the last
    pass.
    """
    facts = read_as(source)
    named = ", ".join(
        f"{role} from {' and '.join(of)}" for role, of in facts["read"].items()
    )
    unit = f"; spans count {facts['span_unit']}" if facts["span_unit"] else ""
    if facts["span_unit"] == "text":
        unit = "; spans are where their text is, whatever their numbers count"
    form = (facts[key] for key in ("form", "encoding") if facts[key])
    yield f"{source.path}: read as {' in '.join(form)}; {named}{unread(source)}{unit}."
    yield (
        f"{formats.count(facts['num_read'], 'record')}, {facts['num_with_intent']} with"
        f" an intent, {facts['num_with_slot']} with a slot."
    )
    if facts["num_extended"]:
        yield (
            f"Slots that begin or end inside a token were extended to the whole token"
            f" ({facts['num_extended']}; --tokenize punctuation separates punctuation"
            f" from words)."
        )
    if facts["num_trimmed"]:
        yield f"Slots that lost white space at an end ({facts['num_trimmed']})."
    if left := {
        k: n for k, n in facts["notes"].items() if not k.startswith((JOINED, INNER))
    }:
        said = ", ".join(f"{count} {what}" for what, count in left.items())
        yield f"Not read: {said}."


def samples(source: Source) -> Iterator[str]:
    """The first records as they were read, each with the fields that it came from: for
    a terminal alone, because they are texts.
    """
    names = dict(reversed(source.survey.read))

    def of(*roles: str) -> str:
        there = [names[role] for role in roles if role in names]
        return f" ({', '.join(there)})" if there else ""

    found = (each for each in source.utterances() if isinstance(each, Utterance))
    for utterance in islice(found, _SAMPLES):
        words = list(utterance.tokens)
        for name, start, end in slots_lenient(utterance.tags):
            words[start] = f"[{words[start]}"
            words[end - 1] = f"{words[end - 1]} : {name}]"
        told = [f"text{of('text', 'tokens', 'annotated', 'slots', 'tags')}"]
        told[0] += f": {' '.join(words)}"
        if utterance.intent != NO_INTENT:
            told.append(f"intent{of('intent')}: {utterance.intent}")
        yield one_line("; ".join(told), characters=_SAMPLE_CHARACTERS)


def unread(source: Source) -> str:
    """The end of a sentence about the fields that are not read."""
    names = source.survey.ignored
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; not read: {', '.join(names[:_MOST_NAMES])}{more}" if names else ""


def doubts(source: Source, found: Inspection) -> Iterator[str]:
    """Warnings where a file may have been misread or labels overlooked."""
    for name, each in source.survey.overlooked.items():
        yield (
            f"The field {name} looks like labels and is not read ({each.argument} reads"
            " it)."
        )
    yield from _doubts(source.survey)
    if not source.has_intents and not source.survey.with_slots:
        yield (
            "No record has an intent or a slot (--intent, --tags and --slots name"
            " fields)."
        )
    if "cp1252" in source.encodings:
        yield (
            "The file is not UTF-8 and was read as Windows-1252 (cp1252); --encoding"
            " names another."
        )
    yield from _about_counts(found)


def _doubts(survey: Survey) -> Iterator[str]:
    """Warnings of records that look as if they were misread."""
    kinds, of = survey.kinds, f"of {survey.num_records} records"
    for form, (option, _) in FORMS.items():
        number = kinds[f"marks {form}"]
        if number > _MARKED * survey.num_records:
            yield (
                f"Texts with {form} in them, taken for words ({number} {of}; --marks"
                f" {option} reads them)."
            )
    if 2 * kinds["unspaced"] > survey.num_records:
        yield (
            "Words of a script without spaces are one token, of which an encoder reads"
            f" the first piece ({kinds['unspaced']} {of}; --tokenize characters cuts"
            " them)."
        )
    if kinds["BIO names"]:
        yield (
            "Names of slots that begin like tags, B- or I-, which may be a tag in a tag"
            f" ({kinds['BIO names']})."
        )
    if survey.notes[JOINED]:
        yield (
            f"Spans with names such as B-city and I-city were joined to whole slots"
            f" ({survey.notes[JOINED]})."
        )
    if inner := {k: n for k, n in survey.notes.items() if k.startswith(INNER)}:
        named = ", ".join(f"{count} {what}" for what, count in inner.items())
        yield f"Not read, because a token has one tag: {named}."


def _about_counts(found: Inspection) -> Iterator[str]:
    """Warnings of counts that say that a wrong field was read."""
    intents = found.by_label["intents"].values()
    once = sum(counts.total() == 1 for counts in intents)
    if len(intents) >= _MANY and 2 * once > found.parts.total():
        yield (
            f"{once} of {len(intents)} intents occur once each, as texts do and labels"
            " do not (--intent names another field)."
        )
    if found.num_different > _MARKED * found.num_read:
        yield (
            f"{found.num_different} of {found.num_duplicates} repeated texts differ"
            " from the first one in case."
        )


def figures(found: Inspection) -> dict[str, object]:
    """Counts, lengths and labels as plain data."""
    lengths, parts = np.asarray(found.lengths), found.parts
    return {
        "num_records": parts.total(),
        "num_duplicates": found.num_duplicates,
        "parts": {part: parts[part] for part in PARTS},
        "parts_because": _why(parts),
        "declare_num_records": rounded_size(parts["train"]) if _is_cut(parts) else None,
        "mean_length": float(lengths.mean()) if len(lengths) else None,
        "max_length": int(lengths.max()) if len(lengths) else None,
        **{f"num_{kind}": len(of) for kind, of in found.by_label.items()},
        "num_groups": len(found.groups) or None,
        "largest_group": max(found.groups.values(), default=None),
    }


def warnings(found: Inspection) -> Iterator[str]:
    """Warnings to check before any epsilon is spent, a sentence each."""
    parts = found.parts
    if parts["train"] < _FEW_IN_ALL:
        yield (
            f"With only {parts['train']} training records, linear heads with DP are"
            " likely to be the only useful private model, and intervals will be wide."
        )
    for part in PARTS:
        if part != "train" and not parts[part]:
            yield f"There are no {part} records: `sweep init` holds out a part for {part}."
    for kind, of in found.by_label.items():
        rare = sum(counts.total() < FEW for counts in of.values())
        absent = sum(not counts["train"] for counts in of.values())
        if rare:
            yield (
                f"{rare} of {len(of)} {kind} have fewer than {FEW} records: no private"
                f" model learns"
                " them, and their names reveal something about the records."
            )
        if absent:
            yield f"{absent} of {len(of)} {kind} have no training record."
    if found.repeated:
        yield (
            f"{found.repeated} texts are in the training part and in another one; the"
            " first is kept."
        )
    if found.near:
        yield (
            f"{found.near} validation and test records differ from a training record in"
            f" case,"
            " signs, numbers or word order only: scores look better than they are."
        )
    sizes = sorted(found.groups.values())
    if sizes and sizes[-1] > max(1, _LARGE_GROUP * parts.total()):
        yield (
            f"The largest of {len(sizes)} groups has {sizes[-1]} records, the median"
            f" {sizes[len(sizes) // 2]}: privacy.max_records_per_group bounds what one"
            f" adds."
        )
    if found.groups_in_parts:
        yield (
            f"{found.groups_in_parts} groups have records in several parts: a guarantee"
            f" for groups"
            " holds only for the training part, and scores look better than they are."
        )


def _is_cut(parts: Counter[Part]) -> bool:
    """Whether the file assigns records to training, validation and test."""
    return all(parts[part] for part in PARTS)


def _why(parts: Counter[Part]) -> str:
    if _is_cut(parts):
        return "as in the file, with data.split official"
    return (
        "the file lacks a part: `sweep init` cuts it from the training part, data.split"
        " paper cuts all records 45:5:50"
    )

"""Integer counts of each utterance, which add up, as the input of every NLU metric.

A metric of this registry is a pure function of `Counts`. It works on the counts of
single utterances, on their sum, and on the sums of a thousand bootstrap resamples
alike, because all fields have one shape and every operation is element-wise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.data.bio import slots_strict
from trainables.data.records import NO_INTENT, Frame, Slot

Align = Literal["name", "edit"]
Match = Literal["span", "value"]
Integers = NDArray[np.int64]
Key = tuple[
    str, Hashable
]  # a slot's name and its span or value, which must agree for a match


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of utterances, one array each, all of one shape (a scalar for a total).

    Slots only: `correct`, `substituted`, `deleted`, `inserted` by the chosen alignment,
    so that correct + substituted + deleted = `reference_slots` and correct +
    substituted + inserted = `hypothesis_slots`. `matched` is the size of the multiset
    intersection, which is `correct` under the alignment by name. The `strict_` fields
    read the tags as IOB2 defines them. `reference_intents` is 1, or 0 where the
    reference has slots alone; then no intent is an error.
    """

    utterances: Integers
    intent_errors: Integers
    frame_errors: Integers
    correct: Integers
    substituted: Integers
    deleted: Integers
    inserted: Integers
    matched: Integers
    reference_slots: Integers
    hypothesis_slots: Integers
    strict_matched: Integers
    strict_reference_slots: Integers
    strict_hypothesis_slots: Integers
    reference_intents: Integers

    @property
    def slot_errors(self) -> Integers:
        """S + D + I."""
        return self.substituted + self.deleted + self.inserted

    def total(self) -> Counts:
        """The counts of all utterances together."""
        return from_table(table(self).sum(axis=0))


# The functions of a metric's file: element-wise on counts, by the name of their figure.
OfCounts = Mapping[str, Callable[[Counts], NDArray[np.float64]]]
NAMES = tuple(field.name for field in fields(Counts))


def table(counts: Counts) -> Integers:
    """The counts as one array, a column for each field, in the order of `NAMES`."""
    return np.stack([getattr(counts, name) for name in NAMES], axis=-1)


def from_table(values: Integers) -> Counts:
    """Inverse of `table`."""
    return Counts(**{name: values[..., column] for column, name in enumerate(NAMES)})


def slot_keys(
    slots: Sequence[Slot], *, match: Match, tokens: Sequence[str] | None
) -> list[Key]:
    """Slots in text order, each as a key that is equal for matching slots.

    `span`: (name, (start, end)) on the reference's tokens. `value`: (name, text),
    lower-cased with single spaces, for parsers that cut tokens differently.
    """
    ordered = sorted(slots, key=lambda slot: (slot[1], slot[2], slot[0]))
    if match == "span":
        return [(name, (start, end)) for name, start, end in ordered]
    assert tokens is not None  # which only this rule reads
    return [
        (name, " ".join(" ".join(tokens[start:end]).lower().split()))
        for name, start, end in ordered
    ]


def align_by_name(
    reference: Sequence[Key], hypothesis: Sequence[Key]
) -> tuple[int, ...]:
    """(C, S, D, I): exact matches first, then leftovers of one name are substitutions.

    Slots of different names never align, so a slot under a wrong name is one deletion
    and one insertion.

    >>> align_by_name([("from", "boston"), ("to", "denver")], [("to", "boston"), ("to", "denver")])
    (1, 0, 1, 1)
    >>> align_by_name([("to", "rome")] * 2, [("to", "rome")] * 2 + [("by", "car")])
    (2, 0, 0, 1)
    """
    matched = _intersection(reference, hypothesis)
    in_reference = Counter(name for name, _ in reference)
    in_hypothesis = Counter(name for name, _ in hypothesis)
    same_name = sum((in_reference & in_hypothesis).values())
    substituted = same_name - matched
    return matched, substituted, len(reference) - same_name, len(hypothesis) - same_name


def align_by_edit(
    reference: Sequence[Key], hypothesis: Sequence[Key]
) -> tuple[int, ...]:
    """(C, S, D, I) of a cheapest edit path in text order, every edit at cost 1 (as
    sclite).

    Of the paths of equal cost, the one with most slots correct: then the counts are
    unique, and exchanging the two sides exchanges D and I.

    >>> align_by_edit([("from", "boston"), ("to", "denver")], [("to", "boston"), ("to", "denver")])
    (1, 1, 0, 0)
    """
    # Cell: (edits, -correct); tuples compare in that order.
    row = [(column, 0) for column in range(len(hypothesis) + 1)]
    for done, slot in enumerate(reference, start=1):
        above, row = row, [(done, 0)]
        for column, other in enumerate(hypothesis, start=1):
            edits, correct = above[column - 1]
            step = (edits, correct - 1) if slot == other else (edits + 1, correct)
            deleted = (above[column][0] + 1, above[column][1])
            inserted = (row[column - 1][0] + 1, row[column - 1][1])
            row.append(min(step, deleted, inserted))
    edits, correct = row[-1][0], -row[-1][1]
    inserted_slots = edits - (len(reference) - correct)
    substituted = len(hypothesis) - correct - inserted_slots
    return correct, substituted, len(reference) - correct - substituted, inserted_slots


def count_frames(
    references: Sequence[Frame],
    hypotheses: Sequence[Frame],
    *,
    align: Align = "name",
    match: Match = "span",
    tokens: Sequence[Sequence[str]] | None = None,
    hypothesis_tokens: Sequence[Sequence[str]] | None = None,
    reference_tags: Sequence[Sequence[str]] | None = None,
    hypothesis_tags: Sequence[Sequence[str]] | None = None,
) -> Counts:
    """The counts of `hypotheses` against `references`, in the same order, by utterance,
    shape [n]; `table` of them is what a trial may keep for a paired comparison later.
    Counts add up, so an evaluation may run in pieces.

    `tokens` are the references' and, unless given apart, the hypotheses' tokens; only
    match="value" reads them. With the BIO tags of both sides `slot_f1_strict` reads
    them strictly; frames alone hold no malformed tags, so then it equals `slot_f1` of
    spans. Labels never seen are labels.
    """
    aligner = align_by_name if align == "name" else align_by_edit
    rows = np.empty((len(references), len(NAMES)), dtype=np.int64)
    for index, (reference, hypothesis) in enumerate(
        zip(references, hypotheses, strict=True)
    ):
        words = tokens[index] if tokens else None
        theirs = hypothesis_tokens[index] if hypothesis_tokens else words
        right = slot_keys(reference.slots, match=match, tokens=words)
        guess = slot_keys(hypothesis.slots, match=match, tokens=theirs)
        correct, substituted, deleted, inserted = aligner(right, guess)
        matched = correct if align == "name" else _intersection(right, guess)
        strict_counts = (matched, len(right), len(guess))
        if reference_tags is not None and hypothesis_tags is not None:
            one, other = (
                slots_strict(reference_tags[index]),
                slots_strict(hypothesis_tags[index]),
            )
            strict_counts = (_intersection(one, other), len(one), len(other))
        intent_error = reference.intent not in (NO_INTENT, hypothesis.intent)
        frame_error = intent_error or substituted + deleted + inserted > 0
        rows[index] = (
            1,
            intent_error,
            frame_error,
            *(correct, substituted, deleted, inserted),
            *(matched, len(right), len(guess)),
            *strict_counts,
            reference.intent != NO_INTENT,
        )
    return from_table(rows)


def _intersection(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    if first == second:  # most utterances of a good model
        return len(first)
    return sum((Counter(first) & Counter(second)).values())

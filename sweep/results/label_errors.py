"""Which labels a model gets wrong, by counts of its test records. Pure.

No epsilon covers these counts, so they are for the curator alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainables.data.records import NO_INTENT, Frame

MISSED = "-"  # what stands for a slot that is not there, on either side


@dataclass(frozen=True, kw_only=True)
class LabelScore:
    """One intent or slot: in how many places the reference has it (`records` for an
    intent, which has one place in a record), and precision, recall and F1 of the
    prediction, each 0 where its denominator is 0.
    """

    kind: str
    label: str
    places: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """A label of the reference and what was predicted in its place, `count` times. A
    slot is confused where both have one on the same tokens; otherwise one side is
    `MISSED`.
    """

    kind: str
    reference: str
    predicted: str
    count: int


def label_scores(
    reference: Sequence[Frame], predicted: Sequence[Frame]
) -> list[LabelScore]:
    """The score of each label that either side has: those with most places first.

    >>> flight, fare = Frame("flight", ()), Frame("fare", ())
    >>> [(s.label, s.places, s.f1) for s in label_scores([flight, fare], [flight] * 2)]
    [('fare', 1, 0.0), ('flight', 1, 0.6666666666666666)]
    """
    found = []
    for kind, sides in (
        ("intent", (_intents(reference), _intents(predicted))),
        ("slot", (_slots(reference), _slots(predicted))),
    ):
        places, guesses = (Counter(label for label, _ in side) for side in sides)
        right = Counter(label for label, _ in sides[0] & sides[1])
        for label in places | guesses:
            found.append(
                LabelScore(
                    kind=kind,
                    label=label,
                    places=places[label],
                    precision=right[label] / max(1, guesses[label]),
                    recall=right[label] / max(1, places[label]),
                    f1=2 * right[label] / (places[label] + guesses[label]),
                )
            )
    return sorted(found, key=lambda each: (each.kind, -each.places, each.label))


def confusions(
    reference: Sequence[Frame], predicted: Sequence[Frame]
) -> list[Confusion]:
    """What was predicted in place of what, the most frequent first."""
    counts = Counter(
        found
        for truth, guess in zip(reference, predicted, strict=True)
        for found in _confused(truth, guess)
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        Confusion(kind=kind, reference=true, predicted=guess, count=count)
        for (kind, true, guess), count in ordered
    ]


def lost(
    reference: Sequence[Frame], baseline: Sequence[Frame], predicted: Sequence[Frame]
) -> list[int]:
    """The numbers of the records that the baseline has wholly right, intent and slots,
    and the model has not.
    """
    return [
        number
        for number, (truth, before, guess) in enumerate(
            zip(reference, baseline, predicted, strict=True)
        )
        if _is_right(truth, before) and not _is_right(truth, guess)
    ]


def _is_right(truth: Frame, guess: Frame) -> bool:
    return set(truth.slots) == set(guess.slots) and (
        truth.intent in (NO_INTENT, guess.intent)
    )


def _intents(frames: Iterable[Frame]) -> set[tuple[str, object]]:
    """Each intent with its place; a record of slots alone has none."""
    return {
        (frame.intent, number)
        for number, frame in enumerate(frames)
        if frame.intent != NO_INTENT
    }


def _slots(frames: Iterable[Frame]) -> set[tuple[str, object]]:
    return {
        (name, (number, start, end))
        for number, frame in enumerate(frames)
        for name, start, end in frame.slots
    }


def _confused(truth: Frame, guess: Frame) -> Iterator[tuple[str, str, str]]:
    if truth.intent not in (NO_INTENT, guess.intent):
        yield "intent", truth.intent, guess.intent or MISSED
    true = {(start, end): name for name, start, end in truth.slots}
    said = {(start, end): name for name, start, end in guess.slots}
    for place in sorted(true.keys() | said.keys()):
        pair = true.get(place, MISSED), said.get(place, MISSED)
        if pair[0] != pair[1]:
            yield "slot", *pair

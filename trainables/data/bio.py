"""BIO tags to slots and back, in the two standard readings (conlleval and IOB2)."""

from __future__ import annotations

from collections.abc import Sequence

from trainables.data.records import Slot
from trainables.errors import InvalidData


def slots_lenient(tags: Sequence[str]) -> tuple[Slot, ...]:
    """Slots as `conlleval` reads them (Tjong Kim Sang & Buchholz 2000): the default reading.

    B-x starts a slot. I-x continues the slot before it when that has the same name, and starts a
    new one otherwise.

    >>> slots_lenient(["O", "I-city", "I-city", "B-city"])
    (('city', 1, 3), ('city', 3, 4))
    """
    return _slots(tags, strict=False)


def slots_strict(tags: Sequence[str]) -> tuple[Slot, ...]:
    """Slots as IOB2 defines them: only B-x starts one, an I-x that continues nothing is no slot.

    >>> slots_strict(["O", "I-city", "B-city", "I-city"])
    (('city', 2, 4),)
    """
    return _slots(tags, strict=True)


def _slots(tags: Sequence[str], *, strict: bool) -> tuple[Slot, ...]:
    """Slots that begin at B-x alone, or at every tag but O that continues no slot."""
    slots: list[Slot] = []
    name, start = "", 0
    for position, tag in enumerate((*tags, "O")):
        kind, _, new = tag.partition("-")
        if kind == "I" and name and new == name:
            continue
        if name:
            slots.append((name, start, position))
        begins = kind == "B" if strict else kind != "O"
        name, start = (new if begins else "", position)
    return tuple(slots)


def tags_of(slots: Sequence[Slot], length: int) -> tuple[str, ...]:
    """IOB2 tags of slots that do not overlap, for an utterance of `length` tokens.

    >>> tags_of((("city", 1, 3),), 4)
    ('O', 'B-city', 'I-city', 'O')
    """
    tags = ["O"] * length
    for name, start, end in slots:
        tags[start] = f"B-{name}"
        for position in range(start + 1, end):
            tags[position] = f"I-{name}"
    return tuple(tags)


def require_bio(tags: Sequence[str], *, where: str) -> None:
    """Raises: InvalidData where a tag is neither O nor B- or I- with a name."""
    for position, tag in enumerate(tags, start=1):
        if tag != "O" and not (tag[:2] in ("B-", "I-") and len(tag) > 2):
            raise InvalidData(
                f"expected O, B-name or I-name in {where}, tag {position} is none of them"
            )

"""BIO tags to slots and back, in the two standard readings (conlleval and IOB2)."""

import re
from collections.abc import Sequence

from trainables.data.records import Slot
from trainables.errors import InvalidData

_MARK = re.compile(r"\[\s*([^\[\]:]+?)\s*:\s*([^\[\]]*?)\s*\]")


def slots_lenient(tags: Sequence[str]) -> tuple[Slot, ...]:
    """Slots as `conlleval` reads them (Tjong Kim Sang & Buchholz 2000): the default
    reading.

    B-x starts a slot. I-x continues the slot before it when that has the same name, and
    starts a new one otherwise.

    >>> slots_lenient(["O", "I-city", "I-city", "B-city"])
    (('city', 1, 3), ('city', 3, 4))
    """
    return _slots(tags, strict=False)


def slots_strict(tags: Sequence[str]) -> tuple[Slot, ...]:
    """Slots as IOB2 defines them: only B-x starts one, an I-x that continues nothing is
    no slot.

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
                f"expected O, B-name or I-name in {where}, tag {position} is none of"
                f" them"
            )


def parse_annotation(
    text: str, *, where: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tokens and BIO tags of a text with slots marked in it, `[slot : value]`
    (NLU-EVAL, MASSIVE), cut at white space and at the edges of slots.

    >>> parse_annotation("wake me at [time : nine am], ok", where="a doctest")
    (('wake', 'me', 'at', 'nine', 'am', ',', 'ok'), ('O', 'O', 'O', 'B-time', 'I-time', 'O', 'O'))

    Raises: InvalidData naming `where` for a mark that is not closed or lacks its name
    or its value, or no token at all.
    """
    tokens: list[str] = []
    slots: list[Slot] = []
    before, *marks = _MARK.split(text)
    parts = [("", "", before), *zip(marks[::3], marks[1::3], marks[2::3], strict=True)]
    for place, (name, value, behind) in enumerate(parts):
        words, slot = value.split(), "_".join(name.split())
        if place:
            slots.append((slot, len(tokens), len(tokens) + len(words)))
            if not words or not slot:
                raise InvalidData(
                    f"expected a name and a value in each slot in {where}"
                )
        if "[" in behind or "]" in behind:
            raise InvalidData(
                f"expected slots as [name : value] in {where}, got a bracket alone"
            )
        tokens += words + behind.split()
    if not tokens:
        raise InvalidData(f"expected at least one token in {where}, got none")
    return tuple(tokens), tags_of(slots, len(tokens))

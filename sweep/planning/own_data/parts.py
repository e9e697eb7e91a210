"""The split of records into training, validation and test, where a file has none.

A record's part depends on its text or its group alone. A record that is added later moves no other
one, equal texts are never in two parts, and a group is never split.
"""

from __future__ import annotations

import hashlib

from trainables.data.records import Part, Utterance
from trainables.data.storage import normalise

_PERSON = b"own data parts"  # separates this use of the hash from others


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

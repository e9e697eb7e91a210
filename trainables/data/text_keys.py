"""A key of each text, computed from its tokens alone, for public randomness about a record.

Dropout masks and the choice among a group's records come from a public seed. Keyed by the record's
index in the corpus, an added record would change the coins of all later records, and the sum by
more than the bound of one record. Keyed by the text, they are a function of the record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from trainables.seeding import GOLDEN, mix


def token_numbers(tokens: Iterable[str]) -> NDArray[np.uint64]:
    """A 64-bit hash of each token's text."""
    digests = (hashlib.blake2b(t.encode(), digest_size=8).digest() for t in tokens)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def text_keys(numbers: NDArray[np.integer], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[B]: keys of packed texts of these `lengths` (each >= 1), `numbers` [T] being their tokens.

    >>> text_keys(np.array([5, 6, 6, 5, 5, 6]), np.array([2, 2, 2])).tolist()[::2] == [
    ...     int(text_keys(np.array([5, 6]), np.array([2]))[0])
    ... ] * 2
    True
    """
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(numbers)) - np.repeat(starts, lengths)
    with np.errstate(over="ignore"):
        of_token = mix(numbers.astype(np.uint64) + GOLDEN)
        each = mix(of_token + place.astype(np.uint64) * GOLDEN + GOLDEN)
        return mix(np.add.reduceat(each, starts) + GOLDEN).view(np.int64)

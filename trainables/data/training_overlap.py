"""Texts that a public model has learned from, as hashes, and whether a corpus shares
records with them.

A hash is 32 bits of BLAKE2b, under a fixed key because the texts are public, of the
letters and digits of a text in lower case. So a renamed copy of a corpus is found, and
one with other spaces, signs or case. Another record counts as one of n texts with
probability n / 2^32, for the encoder that ships 1 in 96,000.

Unrelated corpora share texts by chance ("yes", "play some music"): of those that this
project reads, at most 2 % of all records, and 0.1 % of all in longer texts. More is not
chance (`_FEW`). What may pass stands on the card (`THRESHOLDS`).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.data.corpus import Corpus
from trainables.errors import InvalidData

Hashes = NDArray[np.uint32]
_KEY = b"texts that a public model has learnt from"
_REST = re.compile(r"[\W_]+")
_LONG = 24  # bytes of letters and digits, about six English words
_FEW = 3  # records that any two corpora may share; beyond, so large a part:
_SHARE, _LONG_SHARE = (
    0.1,
    0.005,
)  # of all records, in texts of any length and in long ones
_OF = 2_000  # long records, an example
THRESHOLDS = (
    f"compared by letters and digits; refused above {_SHARE:.0%} of all records, or"
    f" above {_LONG_SHARE:.1%} in texts of {_LONG} letters and digits or more, but for"
    f" no {_FEW} records: of {_OF:,} long records {_LONG_SHARE * _OF:.0f} may be among"
    " them word for word, and other wordings are not looked for"
)


def key_of(text: str) -> bytes:
    """What identifies a text: its letters and digits in lower case.

    >>> key_of("Play  Jazz, please!").decode()
    'playjazzplease'
    """
    return _REST.sub("", text.casefold()).encode()


def keys_of(corpus: Corpus, ids: NDArray[np.int64] | None = None) -> Iterator[bytes]:
    """The keys of records, of all where `ids` is None."""
    of_types = [key_of(token) for token in corpus.types]
    every = range(len(corpus)) if ids is None else ids.tolist()
    # A map is slow to slice.
    yield from map(b"".join, corpus.sequences(np.array(corpus.tokens), of_types, every))


def hashes_of(keys: Iterable[bytes]) -> Hashes:
    """The sorted hashes of texts; those without a letter or digit have none."""
    return np.unique(np.fromiter((_hash(key) for key in keys if key), dtype=np.uint32))


def shares_records(keys: Iterable[bytes], known: Hashes) -> bool:
    """Whether more of the records with these `keys` (see `key_of`) are among the
    `known` hashes of pretraining texts than chance explains: more than three, and more
    than the shares in `THRESHOLDS` of all or of long records. Word-for-word texts are
    found, other wordings are not.
    """
    table, every = set(known.tolist()), list(keys)
    shared = [len(key) for key in every if key and _hash(key) in table]
    num_long = sum(length >= _LONG for length in shared)
    is_often = len(shared) > max(_FEW, _SHARE * len(every))
    return is_often or num_long > max(_FEW, _LONG_SHARE * len(every))


def _hash(key: bytes) -> int:
    return int.from_bytes(
        hashlib.blake2b(key, digest_size=4, key=_KEY).digest(), "little"
    )


def read_hashes(file: Path) -> Hashes:
    """The hashes that `write_hashes` wrote: uint32[n], ascending and distinct. With 32
    bits a few of many records match by chance, for which `shares_records` allows.

    Raises: InvalidData for a file that is missing or damaged.
    """
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        found = np.zeros((0, 0))
    if (
        found.dtype != np.uint32
        or found.ndim != 1
        or (np.diff(found.astype(np.int64)) <= 0).any()
    ):
        raise InvalidData(f"expected hashes of texts in {file}, got a damaged file")
    return np.asarray(found, dtype=np.uint32)


def write_hashes(file: Path, hashes: Iterable[Hashes]) -> None:
    """Write all of these together."""
    np.save(file, np.unique(np.concatenate(list(hashes))), allow_pickle=False)

"""Whether a public model has learnt from private records: decided by texts, not by names.

The folder of an encoder has the hashes of the texts that it was pretrained on, `learnt.npy`
(uint32[n], sorted): 32 bits of BLAKE2b, under a fixed key because they are public, of the letters
and digits of each text in lower case. So a renamed copy of a corpus is found, and one with other
spaces, punctuation or case. A record that is none of the n texts counts as one with probability
n / 2^32, for the encoder that ships 1 in 80,000. Records are hashed in memory alone.

Unrelated corpora share texts by chance ("yes", "play some music"): of those that this project
reads, at most 2 % of all records, and 0.1 % of all in longer texts. More is refused (`_FEW`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue
from trainables.data.corpus import Corpus
from trainables.encoders.about import LEARNT, About, about_of
from trainables.errors import InvalidData, InvalidInput

Hashes = NDArray[np.uint32]
_KEY = b"texts that a public model has learnt from"
_REST = re.compile(r"[\W_]+")
_LONG = 24  # bytes of letters and digits, about six English words
_FEW = 3  # records that any two corpora may share; beyond, so large a part:
_SHARE, _LONG_SHARE = 0.1, 0.005  # of all records, in texts of any length and in long ones


def key_of(text: str) -> bytes:
    """What identifies a text: its letters and digits in lower case.

    >>> key_of("Play  Jazz, please!").decode()
    'playjazzplease'
    """
    return _REST.sub("", text.casefold()).encode()


def keys_of(corpus: Corpus, ids: NDArray[np.int64] | None = None) -> Iterator[bytes]:
    """The keys of records, of all where `ids` is None."""
    of_types = [key_of(token) for token in corpus.types]
    tokens, offsets = np.array(corpus.tokens), corpus.offsets.tolist()  # a map is slow to slice
    for record in range(len(corpus)) if ids is None else ids.tolist():
        piece = tokens[offsets[record] : offsets[record + 1]].tolist()
        yield b"".join([of_types[index] for index in piece])


def hashes_of(keys: Iterable[bytes]) -> Hashes:
    """The sorted hashes of texts; those without a letter or digit have none."""
    return np.unique(np.fromiter((_hash(key) for key in keys if key), dtype=np.uint32))


def read_learnt(about: About) -> Hashes:
    """The hashes of an encoder's pretraining texts.

    Raises: InvalidData for a file that is missing or damaged.
    """
    file = about.place / LEARNT
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        found = np.zeros((0, 0))
    if found.dtype != np.uint32 or found.ndim != 1 or (np.diff(found.astype(np.int64)) <= 0).any():
        raise InvalidData(f"expected hashes of texts in {file}, got a damaged file")
    return np.asarray(found, dtype=np.uint32)


def write_learnt(place: Path, hashes: Iterable[Hashes]) -> None:
    """Write the hashes of all texts that an encoder has learnt from."""
    np.save(place / LEARNT, np.unique(np.concatenate(list(hashes))), allow_pickle=False)


def require_unlearnt(encoder: str, corpus: Corpus) -> None:
    """Refuse an encoder that was pretrained on records of a private corpus, whatever its name.

    Raises: InvalidInput without counts, which plans and reports keep; as `read_learnt`.
    """
    about = about_of(encoder)
    if about is None or catalogue.entry("datasets", corpus.name).PUBLIC:
        return  # a public corpus is refused by its name
    if shares_records(keys_of(corpus), read_learnt(about)):
        raise InvalidInput(
            f"expected model.encoder that has not learnt from the records of {corpus.name}, got"
            f" {encoder}: more of them are among its pretraining texts than chance explains"
        )


def words_of_compared(about: About) -> str:
    """A sentence on an encoder that `require_unlearnt` allows."""
    return (
        f"the pretraining texts of the encoder {about.name}, which share no more records with the"
        " data than chance explains (compared by letters and digits, not by the corpora's names)"
    )


def shares_records(keys: Iterable[bytes], known: Hashes) -> bool:
    """Whether more of the records are among the `known` texts than chance explains."""
    every = num_shared = num_long = 0
    table = set(known.tolist())
    for key in keys:
        every += 1
        if key and _hash(key) in table:
            num_shared += 1
            num_long += len(key) >= _LONG
    return num_shared > max(_FEW, _SHARE * every) or num_long > max(_FEW, _LONG_SHARE * every)


def _hash(key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(key, digest_size=4, key=_KEY).digest(), "little")

"""An encoder of `sweep pretrain` by its description and its pretraining texts, without its weights
(and without torch).

Whether it has learnt from private records is decided by texts, not by names. Its folder has the
hashes of its pretraining texts, `learnt.npy` (uint32[n], sorted): 32 bits of BLAKE2b, under a fixed
key because they are public, of the letters and digits of each text in lower case. So a renamed copy
of a corpus is found, and one with other spaces, signs or case. Another record counts as one of the
n texts with probability n / 2^32, for the encoder that ships 1 in 96,000.

Unrelated corpora share texts by chance ("yes", "play some music"): of those that this project
reads, at most 2 % of all records, and 0.1 % of all in longer texts. More is refused (`_FEW`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue
from trainables.errors import InvalidData, InvalidInput
from trainables.files import read_written_json

if TYPE_CHECKING:
    from trainables.data.corpus import Corpus

ABOUT, WEIGHTS, LEARNT = "encoder.json", "model.safetensors", "learnt.npy"
MOMENTS, NAMES = "moments.safetensors", "names.safetensors"
_FORMAT = 2
_SHIPPED = Path(__file__).with_name("shipped")
Hashes = NDArray[np.uint32]
_KEY = b"texts that a public model has learnt from"
_REST = re.compile(r"[\W_]+")
_LONG = 24  # bytes of letters and digits, about six English words
_FEW = 3  # records that any two corpora may share; beyond, so large a part:
_SHARE, _LONG_SHARE = 0.1, 0.005  # of all records, in texts of any length and in long ones


@dataclass(frozen=True, eq=False)
class About:
    """`card` lists the corpora of the encoder; `layers` are those whose states are features."""

    place: Path
    card: Mapping[str, Any]
    layers: tuple[int, ...]

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the pretraining corpora, and the encoder that the pretraining started from."""
        own = (str(each["name"]) for each in self.card["corpora"])
        return tuple(dict.fromkeys((*own, *map(str, self.card.get("corpora_of_start", ())))))

    @property
    def name(self) -> str:
        """The name in its card."""
        return str(self.card.get("name", self.place.name))

    def public_inputs(self, *, is_private: bool) -> Iterator[str]:
        """In words: what fixed lists of texts took out of its corpora, and for private data the
        comparison that `require_unlearnt` made.
        """
        if lists := self.card.get("left_out_by_the_lists_of", ()):
            number = sum(int(each.get("texts_left_out", 0)) for each in self.card["corpora"])
            yield (
                f"fixed lists of texts that the corpora of the encoder {self.name} share with"
                f" {', '.join(lists)}, which took {number} out of its pretraining"
            )
        if is_private:
            yield (
                f"the pretraining texts of the encoder {self.name}, which share no more records"
                " with the data than chance explains (compared by letters and digits, not by the"
                " corpora's names)"
            )


def shipped_encoders() -> tuple[str, ...]:
    """Names of the encoders that ship with the package."""
    return tuple(sorted(place.parent.name for place in _SHIPPED.glob(f"*/{ABOUT}")))


def about_of(encoder: str) -> About | None:
    """The description of an encoder that ships or of a folder of `sweep pretrain`; None for any
    other place.

    Raises: InvalidData where its file is damaged.
    """
    places = (Path(encoder).expanduser(), _SHIPPED / encoder)
    place = next((place for place in places if (place / ABOUT).is_file()), None)
    if place is None:
        return None
    try:
        fields = read_written_json(place / ABOUT)
        found = About(place, dict(fields["card"]), tuple(map(int, fields["layers"])))
        if fields["format"] != _FORMAT or not found.corpora or not found.layers:
            raise ValueError
    except (InvalidData, ValueError, KeyError, TypeError):
        raise InvalidData(
            f"expected an encoder of format {_FORMAT} in {place}, got a damaged {ABOUT}"
        ) from None
    return found


def write_about(place: Path, *, card: Mapping[str, Any], layers: tuple[int, ...]) -> None:
    """Write the description of the encoder in `place`."""
    about = {"format": _FORMAT, "layers": layers, "card": dict(card)}
    (place / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


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


def shares_records(keys: Iterable[bytes], known: Hashes) -> bool:
    """Whether more of the records are among the `known` texts than chance explains."""
    table, every = set(known.tolist()), list(keys)
    shared = [len(key) for key in every if key and _hash(key) in table]
    num_long = sum(length >= _LONG for length in shared)
    is_often = len(shared) > max(_FEW, _SHARE * len(every))
    return is_often or num_long > max(_FEW, _LONG_SHARE * len(every))


def _hash(key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(key, digest_size=4, key=_KEY).digest(), "little")


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

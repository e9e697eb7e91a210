"""A corpus on disk: a folder of .npy columns, written in one streaming pass and memory-mapped.

    offsets int64[n+1]  tokens int32[T]  tags int16[T]  intents int16[n]  part int8[n]
    outside bool[n]  groups int32[n], where records have groups  types.txt  corpus.json

Token i of record r is `tokens[offsets[r] + i]`, an index in `types.txt` (one token a line). Labels
are indices in the label schema; -1 - j is label j of the names found outside of it. Writing holds
the distinct tokens in memory, and 8 bytes of hash for each record.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from trainables.data.records import LabelSchema, Part, Utterance
from trainables.errors import InvalidData
from trainables.files import read_written_json

PARTS: tuple[Part, ...] = get_args(Part)
_CHUNK = 65_536  # records handled at a time; the fingerprint depends on it
_MAX_LABELS = 2**15 - 1
_PER_TOKEN: dict[str, np.dtype[Any]] = {"tokens": np.dtype(np.int32), "tags": np.dtype(np.int16)}
_PER_RECORD: dict[str, np.dtype[Any]] = {
    "intents": np.dtype(np.int16),
    "part": np.dtype(np.int8),
    "outside": np.dtype(np.bool_),
}
_GROUPS = np.dtype(np.int32)


@dataclass(frozen=True, eq=False)
class Columns:
    """The arrays of a corpus folder by name (see the module), and `corpus.json`."""

    arrays: Mapping[str, NDArray[Any]]
    types: tuple[str, ...]
    meta: Mapping[str, Any]


def normalise(tokens: Iterable[str]) -> str:
    """The normalised text that identifies a record: lower case, one space between tokens."""
    return " ".join(tokens).lower()


def text_hash(tokens: Iterable[str], *, key: bytes = b"") -> int:
    """64 bits of BLAKE2b of the normalised text; keyed where `key` (at most 64 bytes) is given."""
    text = normalise(tokens).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key).digest(), "little")


def token_places(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of the tokens of records that start at `starts`, one record after another.

    >>> token_places(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    places: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return places


def write(folder: Path, utterances: Iterable[Utterance], *, schema: LabelSchema) -> None:
    """Write the corpus of `utterances` into the existing, empty `folder`; equal texts once.

    The first of equal texts is kept. Raises: InvalidData where there is no record, or more than
    32,767 different labels.
    """
    with _Spool(folder, schema) as spool:
        for utterance in utterances:
            spool.add(utterance)
    arrays, hashes = spool.columns()
    if not len(hashes):
        raise InvalidData("expected at least one utterance, got none")
    _, first = np.unique(hashes, return_index=True)
    meta = {
        "num_duplicates": len(hashes) - len(first),
        "extra_intents": list(spool.intents)[len(schema.intents) :],
        "extra_tags": list(spool.tags)[len(schema.tags) :],
    }
    _write_columns(folder, arrays, np.sort(first), types=tuple(spool.types), meta=meta)
    spool.remove()


def write_subset(folder: Path, columns: Columns, ids: NDArray[np.int64]) -> None:
    """Write the records `ids` of a corpus as a new corpus."""
    meta = {name: columns.meta[name] for name in ("num_duplicates", "extra_intents", "extra_tags")}
    _write_columns(folder, columns.arrays, ids, types=columns.types, meta=meta)


def read(folder: Path) -> Columns:
    """Memory-map a corpus folder.

    Raises: InvalidData where a file is missing or inconsistent with the others.
    """
    try:
        meta = read_written_json(folder / "corpus.json")
        names = ["offsets", *_PER_TOKEN, *_PER_RECORD, *(["groups"] if meta["grouped"] else [])]
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}
        types = tuple((folder / "types.txt").read_text(encoding="utf-8").split("\n")[:-1])
        n, total = meta["num_records"], meta["num_tokens"]
        sizes = {name: total if name in _PER_TOKEN else n + (name == "offsets") for name in names}
        whole = all(arrays[name].shape == (size,) for name, size in sizes.items())
        if not whole or len(types) != meta["num_types"]:
            raise ValueError
    except (OSError, InvalidData, ValueError, KeyError, TypeError) as error:
        raise InvalidData(
            f"expected a whole corpus in the cache folder {folder}, got a damaged one"
            f" ({type(error).__name__}); delete it to rebuild it"
        ) from None
    return Columns(arrays, types, meta)


def _write_columns(
    folder: Path,
    arrays: Mapping[str, NDArray[Any]],
    ids: NDArray[np.int64],
    *,
    types: tuple[str, ...],
    meta: dict[str, Any],
) -> None:
    """The records `ids` of `arrays` as .npy files, chunk by chunk, with their fingerprint."""
    starts = np.asarray(arrays["offsets"])
    lengths = (starts[1:] - starts[:-1])[ids]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    total, n = int(offsets[-1]), len(ids)
    np.save(folder / "offsets.npy", offsets)
    per_record = dict(_PER_RECORD)
    if "groups" in arrays:
        per_record["groups"] = _GROUPS
    out = {
        name: np.lib.format.open_memmap(
            folder / f"{name}.npy",
            mode="w+",
            dtype=dtype,
            shape=(total if name in _PER_TOKEN else n,),
        )
        for name, dtype in (_PER_TOKEN | per_record).items()
    }
    digest = hashlib.sha256("\n".join(types).encode())
    digest.update(json.dumps([meta["extra_intents"], meta["extra_tags"]]).encode())
    for low in range(0, n, _CHUNK):
        chosen = ids[low : low + _CHUNK]
        high = low + len(chosen)
        where = token_places(starts[chosen], lengths[low:high])
        digest.update(lengths[low:high].astype("<i8").tobytes())
        for name, column in out.items():
            token_wise = name in _PER_TOKEN
            piece = arrays[name][where if token_wise else chosen]
            at = slice(int(offsets[low]), int(offsets[high])) if token_wise else slice(low, high)
            column[at] = piece
            digest.update(piece.astype(column.dtype.newbyteorder("<")).tobytes())
    for column in out.values():
        column.flush()
    with (folder / "types.txt").open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{word}\n" for word in types)
    meta = meta | {
        "num_records": n,
        "num_tokens": total,
        "num_types": len(types),
        "grouped": "groups" in arrays,
        "fingerprint": digest.hexdigest(),
    }
    (folder / "corpus.json").write_text(json.dumps(meta))


class _Spool:
    """Encodes utterances one by one and appends them to raw files in the folder of the corpus."""

    def __init__(self, folder: Path, schema: LabelSchema) -> None:
        self._folder = folder
        self.types: dict[str, int] = {}
        self.intents = {name: index for index, name in enumerate(schema.intents)}
        self.tags = {name: index for index, name in enumerate(schema.tags)}
        self._num_intents, self._num_tags = len(self.intents), len(self.tags)
        self._groups: dict[str, int] = {}
        self._num_groups = 0
        self._dtypes: dict[str, np.dtype[Any]] = {**_PER_TOKEN, **_PER_RECORD, "groups": _GROUPS}
        self._dtypes |= {"lengths": np.dtype(np.int32), "hashes": np.dtype(np.uint64)}
        self._files = {name: self._path(name).open("wb") for name in self._dtypes}
        self._buffers = {name: array("Q" if name == "hashes" else "q") for name in self._dtypes}

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.raw"

    def add(self, utterance: Utterance) -> None:
        """Append one utterance."""
        buffers, types, tags = self._buffers, self.types, self.tags
        tokens = utterance.tokens
        buffers["lengths"].append(len(tokens))
        buffers["hashes"].append(text_hash(tokens))
        buffers["tokens"].extend([types.setdefault(word, len(types)) for word in tokens])
        found = [tags.setdefault(tag, len(tags)) for tag in utterance.tags]
        intent = self.intents.setdefault(utterance.intent, len(self.intents))
        outside = intent >= self._num_intents
        if max(found) >= self._num_tags:
            outside = True
            found = [t if t < self._num_tags else self._num_tags - 1 - t for t in found]
        buffers["tags"].extend(found)
        buffers["intents"].append(
            intent if intent < self._num_intents else self._num_intents - 1 - intent
        )
        buffers["outside"].append(outside)
        buffers["part"].append(PARTS.index(utterance.part))
        buffers["groups"].append(self._group(utterance.group))
        if len(buffers["lengths"]) >= _CHUNK:
            self._flush()

    def _group(self, name: str | None) -> int:
        """A record without a group key is a separate group."""
        if name is not None and name in self._groups:
            return self._groups[name]
        number, self._num_groups = self._num_groups, self._num_groups + 1
        if name is not None:
            self._groups[name] = number
        return number

    def _flush(self) -> None:
        if max(len(self.intents), len(self.tags)) > _MAX_LABELS:
            raise InvalidData(
                f"expected at most {_MAX_LABELS} intents and tags, got"
                f" {len(self.intents)} intents and {len(self.tags)} tags"
            )
        for name, buffer in self._buffers.items():
            np.asarray(buffer).astype(self._dtypes[name]).tofile(self._files[name])
            self._buffers[name] = array(buffer.typecode)

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._flush()
        for file in self._files.values():
            file.close()

    def columns(self) -> tuple[dict[str, NDArray[Any]], NDArray[np.uint64]]:
        """The columns of all added utterances, memory-mapped, and the hash of each text."""
        raw: dict[str, NDArray[Any]] = {
            name: np.memmap(self._path(name), dtype=dtype, mode="r")
            if self._path(name).stat().st_size
            else np.empty(0, dtype)
            for name, dtype in self._dtypes.items()
        }
        lengths = raw.pop("lengths").astype(np.int64)
        raw["offsets"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        if not self._groups:
            del raw["groups"]
        return raw, raw.pop("hashes")

    def remove(self) -> None:
        """Delete the raw files."""
        for name in self._dtypes:
            self._path(name).unlink()

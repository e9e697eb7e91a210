"""A corpus on disk: a folder of .npy columns, written in one pass and memory-mapped.

    offsets int64[n+1]  tokens int32[T]  tags int16[T]  intents int16[n]  part int8[n]
    outside bool[n]  groups int32[n], where records have groups  types.txt  corpus.json
    part_keys uint64[n], where a hash of each record gives it its part

Token i of record r is `tokens[offsets[r] + i]`, an index in `types.txt` (one token a
line). Labels are indices in the label schema; -1 - j is label j of the names found
outside of it. Writing holds the distinct tokens in memory, 20 bytes for each token and
50 for each record.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from trainables.data.records import LabelSchema, Part, Utterance
from trainables.errors import InvalidData
from trainables.io.files import dump_json, read_written_json

PARTS: tuple[Part, ...] = get_args(Part)
_CHUNK = 65_536  # records of a part of the fingerprint
_MAX_LABELS = 2**15 - 1
# The types of the columns as `array` has them in memory.
_CODES = {
    "tokens": "i",
    "tags": "h",
    "intents": "h",
    "part": "b",
    "outside": "b",
    "groups": "i",
    "part_keys": "Q",
}
_PER_TOKEN = ("tokens", "tags")


@dataclass(frozen=True, eq=False)
class Columns:
    """The arrays of a corpus folder by name (see the module), and `corpus.json`."""

    arrays: Mapping[str, NDArray[Any]]
    types: tuple[str, ...]
    meta: Mapping[str, Any]


def normalise(tokens: Iterable[str]) -> str:
    """The normalised text that identifies a record: lower case, one space between
    tokens.
    """
    return " ".join(tokens).lower()


def text_hash(tokens: Iterable[str], *, key: bytes = b"") -> int:
    """64 bits of BLAKE2b of the normalised text of `tokens`, as an int: equal for texts
    that differ only in case and blanks. With a secret `key` of at most 64 bytes nobody
    else can test which texts are in a file of hashes.
    """
    text = normalise(tokens).encode()
    return int.from_bytes(
        hashlib.blake2b(text, digest_size=8, key=key).digest(), "little"
    )


def token_places(
    starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Indices of the tokens of records that start at `starts`, one record after
    another.

    >>> token_places(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    places: NDArray[np.int64] = np.arange(total) + np.repeat(
        starts - (ends - lengths), lengths
    )
    return places


def distinct(utterances: Iterable[Utterance]) -> Iterator[Utterance]:
    """The first of utterances that are equal in all that a trial reads: words, labels
    and group. One record more adds itself or nothing. Of records with equal texts alone
    the first one's labels would depend on which others there are.
    """
    seen = set()
    for each in utterances:
        content = repr((each.tokens, each.tags, each.intent, each.group))
        digest = hashlib.blake2b(content.encode(errors="surrogatepass")).digest()
        if digest not in seen:
            seen.add(digest)
            yield each


def part_key(utterance: Utterance) -> int:
    """64 bits that give a record its part, of itself alone: the hash of its group, or
    of its normalised text where it has none, so that equal texts have equal parts.
    """
    if utterance.group is None:
        return text_hash(utterance.tokens)
    return text_hash([utterance.group], key=b"group")


def encode(
    utterances: Iterable[Utterance], *, schema: LabelSchema, with_keys: bool = False
) -> Columns:
    """The columns of utterances, and `hashes` uint64[n] of their texts; a record
    without a group key is a separate group. `with_keys` adds `part_keys`.

    Raises: InvalidData where there is no record, or more than 32,767 different labels.
    """
    types: dict[str, int] = {}
    intents = {name: index for index, name in enumerate(schema.intents)}
    tags = {name: index for index, name in enumerate(schema.tags)}
    num_intents, num_tags = len(intents), len(tags)
    groups: dict[str, int] = {}
    num_groups = 0
    lengths, hashes = array("i"), array("Q")
    columns = {name: array(code) for name, code in _CODES.items()}
    for utterance in utterances:
        lengths.append(len(utterance.tokens))
        hashes.append(text_hash(utterance.tokens))
        columns["tokens"].extend(
            [types.setdefault(word, len(types)) for word in utterance.tokens]
        )
        found = [tags.setdefault(tag, len(tags)) for tag in utterance.tags]
        intent = intents.setdefault(utterance.intent, len(intents))
        if max(len(intents), len(tags)) > _MAX_LABELS:
            raise InvalidData(
                f"expected at most {_MAX_LABELS} intents and tags, got {len(intents)}"
                f" intents and {len(tags)} tags"
            )
        outside = intent >= num_intents or max(found) >= num_tags
        if outside:
            found = [tag if tag < num_tags else num_tags - 1 - tag for tag in found]
            intent = intent if intent < num_intents else num_intents - 1 - intent
        group = None if utterance.group is None else groups.get(utterance.group)
        if group is None:
            group, num_groups = num_groups, num_groups + 1
            if utterance.group is not None:
                groups[utterance.group] = group
        columns["tags"].extend(found)
        columns["intents"].append(intent)
        columns["part"].append(PARTS.index(utterance.part))
        columns["outside"].append(outside)
        columns["groups"].append(group)
        if with_keys:
            columns["part_keys"].append(part_key(utterance))
    if not hashes:
        raise InvalidData("expected at least one utterance, got none")
    if not groups:
        del columns["groups"]
    if not with_keys:
        del columns["part_keys"]
    arrays = {
        name: np.asarray(column)
        for name, column in (columns | {"hashes": hashes}).items()
    }
    arrays["offsets"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    meta = {
        "extra_intents": list(intents)[num_intents:],
        "extra_tags": list(tags)[num_tags:],
    }
    return Columns(arrays, tuple(types), meta)


def write(
    folder: Path,
    utterances: Iterable[Utterance],
    *,
    schema: LabelSchema,
    by_hash: bool = False,
) -> None:
    """Write the corpus of `utterances` into the existing, empty `folder`; of equal
    texts the first is kept. `by_hash`: for parts by hash, the first of equal records
    (`distinct`), with `part_keys`. Raises: InvalidData as `encode`.
    """
    num = 0

    def counted() -> Iterator[Utterance]:
        nonlocal num
        for each in utterances:
            num += 1
            yield each

    given = distinct(counted()) if by_hash else counted()
    found = encode(given, schema=schema, with_keys=by_hash)
    hashes = found.arrays["hashes"]
    first = np.arange(len(hashes))
    if not by_hash:
        _, first = np.unique(hashes, return_index=True)
    meta = {**found.meta, "num_duplicates": num - len(first)}
    _write_columns(folder, found.arrays, np.sort(first), types=found.types, meta=meta)


def write_subset(folder: Path, columns: Columns, ids: NDArray[np.int64]) -> None:
    """Write the records `ids` of a corpus as a new corpus."""
    meta = {
        name: columns.meta[name]
        for name in ("num_duplicates", "extra_intents", "extra_tags")
    }
    _write_columns(folder, columns.arrays, ids, types=columns.types, meta=meta)


def read(folder: Path) -> Columns:
    """Memory-map a corpus folder.

    Raises: InvalidData where a file is missing or inconsistent with the others.
    """
    try:
        meta = read_written_json(folder / "corpus.json")
        optional = {"groups": meta["grouped"], "part_keys": meta.get("keyed", False)}
        names = ["offsets", *(name for name in _CODES if optional.get(name, True))]
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names
        }
        types = tuple(
            (folder / "types.txt").read_text(encoding="utf-8").split("\n")[:-1]
        )
        n, total = meta["num_records"], meta["num_tokens"]
        sizes = {
            name: total if name in _PER_TOKEN else n + (name == "offsets")
            for name in names
        }
        whole = all(arrays[name].shape == (size,) for name, size in sizes.items())
        if not whole or len(types) != meta["num_types"]:
            raise ValueError
    except (OSError, InvalidData, ValueError, KeyError, TypeError, EOFError) as error:
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
    """The records `ids` of `arrays` as .npy files, with their fingerprint."""
    starts = np.asarray(arrays["offsets"])
    lengths = np.diff(starts)[ids]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    where = token_places(starts[ids], lengths)
    columns = {
        name: arrays[name][where if name in _PER_TOKEN else ids].astype(
            np.bool_ if name == "outside" else f"<{code}"
        )
        for name, code in _CODES.items()
        if name in arrays
    }
    digest = hashlib.sha256("\n".join(types).encode())
    digest.update(json.dumps([meta["extra_intents"], meta["extra_tags"]]).encode())
    for low in range(0, len(ids), _CHUNK):
        high = min(low + _CHUNK, len(ids))
        digest.update(lengths[low:high].astype("<i8").tobytes())
        for name, column in columns.items():
            is_of_tokens = name in _PER_TOKEN
            at = (
                slice(offsets[low], offsets[high]) if is_of_tokens else slice(low, high)
            )
            digest.update(column[at].tobytes())
    for name, column in {"offsets": offsets, **columns}.items():
        np.save(folder / f"{name}.npy", column)
    with (folder / "types.txt").open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{word}\n" for word in types)
    meta = meta | {
        "num_records": len(ids),
        "num_tokens": len(where),
        "num_types": len(types),
        "grouped": "groups" in arrays,
        "keyed": "part_keys" in arrays,
        "fingerprint": digest.hexdigest(),
    }
    dump_json(folder / "corpus.json", meta)

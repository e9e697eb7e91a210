"""Turns a stream of utterances into the arrays of a corpus on disk, in bounded memory.

One pass writes every record and a 128-bit hash of its text; the hashes say which records are
exact duplicates; a second pass copies the others. What stays in memory is the table of distinct
tokens and 24 bytes a record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trainables.data.records import LabelSchema, Part, Utterance
from trainables.errors import InvalidData

PARTS: tuple[Part, ...] = ("train", "validation", "test")
_PART_IDS = {part: number for number, part in enumerate(PARTS)}
_CHUNK = 16_384


def text_key(tokens: tuple[str, ...]) -> bytes:
    """16 bytes that are equal for equal texts: lower-cased, white space normalised.

    >>> text_key(("Call", "Ann")) == text_key(("call", "ann"))
    True
    """
    return blake2b(" ".join(tokens).lower().encode(), digest_size=16).digest()


def first_occurrences(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows of `keys` [n, 2] are the first of their kind."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: equal rows stay in reading order
    ordered = keys[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    keep = np.zeros(len(keys), dtype=bool)
    keep[order[new]] = True
    return keep


@dataclass
class Labels:
    """Label ids while records are read: the declared labels, then others in order of appearance.

    With `closed`, a label that is not declared is refused.
    """

    declared: LabelSchema | None
    closed: bool
    name: str
    intents: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=lambda: {"O": 0})

    def __post_init__(self) -> None:
        if self.declared is not None:
            self.intents = {intent: i for i, intent in enumerate(self.declared.intents)}
            self.tags = {tag: i for i, tag in enumerate(self.declared.tags)}

    def intent(self, intent: str, record: int) -> int:
        """The id of an intent."""
        number = self.intents.get(intent)
        if number is None:
            self._refuse("intent", record)
            number = self.intents[intent] = len(self.intents)
        return number

    def tag(self, tag: str, record: int) -> int:
        """The id of a tag; both tags of a new slot get their ids at once."""
        number = self.tags.get(tag)
        if number is None:
            self._refuse("slots", record)
            for kind in "BI":
                self.tags[f"{kind}-{tag[2:]}"] = len(self.tags)
            number = self.tags[tag]
        return number

    def _refuse(self, what: str, record: int) -> None:
        if self.closed and self.declared is not None:
            raise InvalidData(
                f"expected every label of {self.name} to be in its schema"
                f" ({self.declared.source}), got another among the {what} of utterance {record + 1}"
            )

    def finish(self) -> tuple[LabelSchema, NDArray[np.int16], NDArray[np.int16], int]:
        """The schema with new labels sorted at its end, the new id of each intent and tag, and
        how many labels were new.
        """
        known_intents = self.declared.intents if self.declared else ()
        known_slots = self.declared.slots if self.declared else ()
        slots = list(dict.fromkeys(tag[2:] for tag in self.tags if tag != "O"))
        new_intents = sorted(set(self.intents) - set(known_intents))
        new_slots = sorted(set(slots) - set(known_slots))
        source = self.declared.source if self.declared else f"read from the records of {self.name}"
        num_new = len(new_intents) + len(new_slots)
        schema = LabelSchema(
            intents=(*known_intents, *new_intents),
            slots=(*known_slots, *new_slots),
            source=source,
            public=self.declared is not None and self.declared.public and num_new == 0,
        )
        intent_ids = {intent: i for i, intent in enumerate(schema.intents)}
        tag_ids = {tag: i for i, tag in enumerate(schema.tags)}
        return (
            schema,
            np.array([intent_ids[intent] for intent in self.intents], dtype=np.int16),
            np.array([tag_ids[tag] for tag in self.tags], dtype=np.int16),
            num_new,
        )


class _Raw:
    """The first pass: plain binary files that grow by a chunk at a time."""

    FIELDS = (
        ("tokens", np.int32),
        ("tags", np.int16),
        ("lengths", np.int32),
        ("intents", np.int16),
        ("part", np.int8),
        ("groups", np.int32),
    )

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, BinaryIO] = {
            name: open(folder / f"{name}.raw", "wb") for name, _ in self.FIELDS
        }

    def write(self, name: str, values: Iterable[int]) -> None:
        """Append values to a field."""
        dtype = dict(self.FIELDS)[name]
        self.files[name].write(np.fromiter(values, dtype=dtype).tobytes())

    def close(self) -> None:
        """Close all files."""
        for file in self.files.values():
            file.close()

    def open(self, name: str) -> NDArray[Any]:
        """A field, memory-mapped."""
        return np.memmap(self.folder / f"{name}.raw", dtype=dict(self.FIELDS)[name], mode="r")

    def delete(self) -> None:
        """Remove all files."""
        for name, _ in self.FIELDS:
            (self.folder / f"{name}.raw").unlink()


def build(
    utterances: Iterable[Utterance],
    folder: Path,
    *,
    name: str,
    declared: LabelSchema | None,
    closed: bool,
    fingerprint: str,
) -> None:
    """Write the arrays of a corpus and `meta.json` into the empty `folder`.

    Duplicates by text (lower-cased, white space normalised) are dropped: the first one stays.

    Raises: InvalidData for no utterance at all, for a label outside a closed schema, and where
    some utterances have a group and others have none.
    """
    labels = Labels(declared=declared, closed=closed, name=name)
    types: dict[str, int] = {}
    groups: dict[str, int] = {}
    raw = _Raw(folder)
    keys: list[NDArray[np.uint64]] = []
    num_read = num_grouped = 0
    chunk: list[Utterance] = []

    def flush() -> None:
        """Encode and write one chunk of records."""
        start = num_read - len(chunk)
        flat_tokens = list(chain.from_iterable(u.tokens for u in chunk))
        raw.write("tokens", (types.setdefault(token, len(types)) for token in flat_tokens))
        known = labels.tags
        raw.write(
            "tags",
            (
                known[tag] if tag in known else labels.tag(tag, start + i)
                for i, u in enumerate(chunk)
                for tag in u.tags
            ),
        )
        raw.write("lengths", (len(u.tokens) for u in chunk))
        raw.write("intents", (labels.intent(u.intent, start + i) for i, u in enumerate(chunk)))
        raw.write("part", (_PART_IDS[u.part] for u in chunk))
        raw.write(
            "groups",
            (-1 if u.group is None else groups.setdefault(u.group, len(groups)) for u in chunk),
        )
        text_keys = b"".join(text_key(u.tokens) for u in chunk)
        keys.append(np.frombuffer(text_keys, dtype="<u8").reshape(-1, 2))
        chunk.clear()

    try:
        for utterance in utterances:
            chunk.append(utterance)
            num_read += 1
            num_grouped += utterance.group is not None
            if len(chunk) == _CHUNK:
                flush()
        flush()
    finally:
        raw.close()
    if num_read == 0:
        raise InvalidData(f"expected at least one utterance in {name}, found none")
    if num_grouped not in (0, num_read):
        raise InvalidData(
            f"expected a group with every utterance of {name} or with none,"
            f" got {num_grouped} of {num_read}"
        )
    keep = first_occurrences(np.concatenate(keys))
    keys.clear()
    schema, intent_ids, tag_ids, num_new = labels.finish()
    lengths = raw.open("lengths")
    _copy(raw.open("tokens"), lengths, keep, folder / "tokens.npy", np.int32, None)
    _copy(raw.open("tags"), lengths, keep, folder / "tags.npy", np.int16, tag_ids)
    offsets = np.zeros(int(keep.sum()) + 1, dtype=np.int64)
    np.cumsum(lengths[keep], out=offsets[1:])
    np.save(folder / "offsets.npy", offsets)
    np.save(folder / "lengths.npy", np.asarray(lengths[keep]))
    np.save(folder / "intents.npy", intent_ids[raw.open("intents")[keep]])
    np.save(folder / "part.npy", np.asarray(raw.open("part")[keep]))
    if num_grouped:
        np.save(folder / "groups.npy", np.asarray(raw.open("groups")[keep]))
    raw.delete()
    encoded = [token.encode() for token in types]
    type_offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(token) for token in encoded], out=type_offsets[1:])
    np.save(folder / "type_offsets.npy", type_offsets)
    np.save(folder / "type_bytes.npy", np.frombuffer(b"".join(encoded), dtype=np.uint8))
    meta = {
        "name": name,
        "fingerprint": fingerprint,
        "intents": schema.intents,
        "slots": schema.slots,
        "source": schema.source,
        "public": schema.public,
        "num_records": int(keep.sum()),
        "num_duplicates": int(num_read - keep.sum()),
        "num_labels_read": num_new,
    }
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


def _copy(
    values: NDArray[Any],
    lengths: NDArray[Any],
    keep: NDArray[np.bool_],
    path: Path,
    dtype: type[np.generic],
    new_ids: NDArray[np.int16] | None,
) -> None:
    """Copy the token-packed values of the kept records to a .npy file, a chunk at a time."""
    total = int(lengths[keep].sum(dtype=np.int64))
    target = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(total,))
    read = written = 0
    for start in range(0, len(keep), _CHUNK):
        here = lengths[start : start + _CHUNK]
        stop = read + int(here.sum(dtype=np.int64))
        part = values[read:stop][np.repeat(keep[start : start + _CHUNK], here)]
        target[written : written + len(part)] = part if new_ids is None else new_ids[part]
        read, written = stop, written + len(part)
    target.flush()

"""A corpus as every part of a trial sees it: encoded, without duplicates, memory-mapped.

The arrays lie in a cache folder that only its owner may read, under a name made from the content of
the source files, so a changed file or schema gives another cache and nothing is ever stale. Texts
keep their case: lower-casing is a matter of the model.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue
from trainables.config import DataConfig
from trainables.data import building, schemas
from trainables.data.reading import digest
from trainables.data.records import Frame, LabelSchema
from trainables.errors import InvalidData

VERSION = 1  # of the readers and of the arrays' layout: a new one makes every cache anew

Ids = NDArray[np.int64]


class Types(Sequence[str]):
    """The distinct tokens of a corpus, decoded from a memory-mapped table when asked for.

    A cache of private data: never part of a model, an export or a log.
    """

    def __init__(self, table: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self._table = table
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index]  # negative and out-of-range indices as a list has them
        return self._table[self._offsets[at] : self._offsets[at + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 65_536):  # one read a block, not one a token
            bounds = self._offsets[start : start + 65_537].tolist()
            block = self._table[bounds[0] : bounds[-1]].tobytes()
            for a, b in zip(bounds[:-1], bounds[1:], strict=True):
                yield block[a - bounds[0] : b - bounds[0]].decode()


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """n = `num_records` utterances, token-packed: record i has the tokens and tags
    `offsets[i]:offsets[i + 1]`.

    `tokens` are indices in `types`, `tags` in `schema.tags`, `intents` in `schema.intents`, `part`
    in (train, validation, test) of the corpus' official split. `groups` (one id a person) is None
    where the corpus has none. `num_duplicates` records were dropped. `undeclared` are the reasons
    why something that a model is built from was read from private records; empty where all of it
    was declared.
    """

    name: str
    fingerprint: str
    schema: LabelSchema
    num_records: int
    num_duplicates: int
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int32]
    tokens: NDArray[np.int32]
    tags: NDArray[np.int16]
    intents: NDArray[np.int16]
    part: NDArray[np.int8]
    groups: NDArray[np.int32] | None
    types: Sequence[str]
    undeclared: tuple[str, ...] = ()
    folder: Path | None = field(default=None, compare=False)

    def length(self, record: int) -> int:
        """Tokens of a record."""
        return int(self.lengths[record])

    def texts(self, ids: Ids) -> list[str]:
        """The texts of some records, tokens joined by spaces. For the curator only."""
        return [
            " ".join(self.types[t] for t in self.tokens[self.offsets[i] : self.offsets[i + 1]])
            for i in ids
        ]

    def frames(self, ids: Ids) -> list[Frame]:
        """What some records mean, in the order of `ids`."""
        names = self.schema.tags
        return [
            Frame(
                intent=self.schema.intents[self.intents[i]],
                slots=slots_of(
                    [names[t] for t in self.tags[self.offsets[i] : self.offsets[i + 1]].tolist()]
                ),
            )
            for i in ids
        ]


def slots_of(tags: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    """The slots of a BIO sequence as (name, first token, one past the last).

    An I- that continues nothing starts a slot, as in the CoNLL evaluation.

    >>> slots_of(["O", "B-city", "I-city", "B-city", "I-day"])
    (('city', 1, 3), ('city', 3, 4), ('day', 4, 5))
    """
    slots: list[tuple[str, int, int]] = []
    for position, tag in enumerate(tags):
        if tag == "O":
            continue
        name = tag[2:]
        if tag[0] == "I" and slots and slots[-1][0] == name and slots[-1][2] == position:
            slots[-1] = (name, slots[-1][1], position + 1)
        else:
            slots.append((name, position, position + 1))
    return tuple(slots)


def source_path(config: DataConfig, *, data_dir: Path, cache_dir: Path) -> Path:
    """Where the corpus of a config lies: `data.path` (relative to the working folder, else to the
    data folder), else the entry's place under the data folder, or for a made corpus under the cache.
    """
    entry = catalogue.entry("datasets", config.name)
    if config.path is not None:
        path = Path(config.path).expanduser()
        return path if path.is_absolute() or path.exists() else data_dir / path
    if hasattr(entry, "make"):
        return cache_dir / "made" / entry.file_name(config)
    return data_dir / str(entry.default_path())


def open_corpus(config: DataConfig, *, data_dir: Path, cache_dir: Path) -> Corpus:
    """The corpus of a config, read and encoded on the first call and memory-mapped on later ones.

    Safe when several processes open at once: one builds, the others wait. The whole pool is opened;
    `max_records` is a matter of the split.

    Raises: InvalidData for a missing or damaged file, naming file and line, never its text.
    """
    entry = catalogue.entry("datasets", config.name)
    declared = schemas.declared(config)
    path = source_path(config, data_dir=data_dir, cache_dir=cache_dir)
    _own_folder(cache_dir)
    if hasattr(entry, "make") and not path.exists():
        _own_folder(path.parent)
        with _lock(path.with_suffix(".lock")):
            if not path.exists():
                entry.make(path, config=config)
    fingerprint = digest(entry.files(path))
    labels = None if declared is None else declared.labels()
    identity = (VERSION, config.name, fingerprint, labels and (labels.intents, labels.slots))
    key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:24]
    folder = cache_dir / f"{config.name}-{key}"
    with _lock(cache_dir / f".{key}.lock"):
        if not (folder / "meta.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            # Built beside its place and renamed, so a killed process leaves no half corpus.
            building_place = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=cache_dir))
            try:
                building.build(
                    entry.read(path, config=config),
                    building_place,
                    name=config.name,
                    declared=labels,
                    # A public corpus may come in a fuller edition; a private one may not surprise.
                    closed=not entry.PUBLIC or config.schema_file is not None,
                    fingerprint=fingerprint,
                )
                os.rename(building_place, folder)
            finally:
                shutil.rmtree(building_place, ignore_errors=True)
    return _open(folder, config)


def _open(folder: Path, config: DataConfig) -> Corpus:
    meta: dict[str, Any] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    schema = LabelSchema(
        intents=tuple(meta["intents"]),
        slots=tuple(meta["slots"]),
        source=meta["source"],
        public=meta["public"],
    )

    def array(name: str) -> NDArray[Any]:
        try:
            return np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):
            raise InvalidData(
                f"expected the cached array {name} in {folder}: delete that folder to make it anew"
            ) from None

    has_groups = (folder / "groups.npy").exists()
    return Corpus(
        name=meta["name"],
        fingerprint=meta["fingerprint"],
        schema=schema,
        num_records=meta["num_records"],
        num_duplicates=meta["num_duplicates"],
        offsets=array("offsets"),
        lengths=array("lengths"),
        tokens=array("tokens"),
        tags=array("tags"),
        intents=array("intents"),
        part=array("part"),
        groups=array("groups") if has_groups else None,
        types=Types(array("type_bytes"), array("type_offsets")),
        undeclared=_undeclared(config, meta),
        folder=folder,
    )


def _undeclared(config: DataConfig, meta: dict[str, Any]) -> tuple[str, ...]:
    """Reasons for an infinite epsilon: what was learned from the records and not declared."""
    reasons = []
    if not meta["public"]:
        reasons.append("label set read from private records")
    size = meta["num_records"]
    if config.max_records is not None:
        size = min(size, config.max_records)
    if config.num_records is None and schemas.declared_pool_size(config) != size:
        reasons.append("number of records read from private records")
    return tuple(reasons)


def _own_folder(path: Path) -> None:
    """Make a folder that only its owner may enter; an existing one is closed to others."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.stat().st_uid == os.getuid():
            path.chmod(0o700)
    except OSError as error:
        raise InvalidData(f"expected a writable cache folder at {path}: {error.strerror}") from None


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock file; the lock goes when the process does."""
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

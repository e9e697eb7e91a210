"""A corpus as trials see it: memory-mapped, de-duplicated, encoded once for all
trials.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainables.config.sections import DataConfig
from trainables.data import storage
from trainables.data.bio import slots_lenient
from trainables.data.configs import FramesConfig, path_of, refuse_too_many
from trainables.data.records import Frame, LabelSchema
from trainables.data.schema import read_schema
from trainables.dp.seeding import generator
from trainables.io.disk import failure_of, flush_tree
from trainables.io.documents import digest_of
from trainables.io.files import make_folder
from trainables.system.locks import alone

# Of the cache; raise it whenever a reader or the storage reads the same files
# otherwise.
_FORMAT = 1
T = TypeVar("T")


@dataclass(eq=False, repr=False)
class Corpus:
    """n records, addressed by ids 0..n-1 in the order of their files.

    `offsets` int64[n+1], `tokens` int32[total] (indices in `types`), `tags`
    int16[total] and `intents` int16[n] (indices in `schema`; negative: outside of it),
    `part` int8[n] (index in `storage.PARTS`), `groups` int32[n] or None, `part_keys`
    uint64[n] where parts are by hash or None, `outside` bool[n]: whether any label of
    the record is outside the schema, so that no model can be trained on it.
    `fingerprint` is the SHA-256 of the content. `undeclared` says what was read from
    private records, so that no epsilon covers it. All arrays are read-only maps of
    files: opening a corpus costs no memory for its records.
    """

    name: str
    schema: LabelSchema
    undeclared: tuple[str, ...]
    types: Sequence[str]
    meta: Mapping[str, Any]
    offsets: NDArray[np.int64]
    tokens: NDArray[np.int32]
    tags: NDArray[np.int16]
    intents: NDArray[np.int16]
    part: NDArray[np.int8]
    outside: NDArray[np.bool_]
    groups: NDArray[np.int32] | None = None
    part_keys: NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        self.fingerprint: str = self.meta["fingerprint"]
        self.num_records: int = self.meta["num_records"]
        self.num_tokens: int = self.meta["num_tokens"]
        self.num_duplicates: int = self.meta["num_duplicates"]
        # A label outside the schema is stored as -1 - j: Python's own index from the
        # end.
        self._intent_names = (
            *self.schema.intents,
            *reversed(self.meta["extra_intents"]),
        )
        self._tag_names = (*self.schema.tags, *reversed(self.meta["extra_tags"]))

    def __len__(self) -> int:
        return self.num_records

    @property
    def lengths(self) -> NDArray[np.int32]:
        """[n]: tokens of each record, computed anew."""
        return np.diff(self.offsets).astype(np.int32)

    def intent_names(self, ids: NDArray[np.int64]) -> list[str]:
        """The true intent of each record, also where the schema lacks it."""
        return [self._intent_names[index] for index in self.intents[ids].tolist()]

    def tag_sequences(self, ids: NDArray[np.int64]) -> list[tuple[str, ...]]:
        """The true BIO tags of each record, also where the schema lacks them."""
        return list(self.sequences(self.tags, self._tag_names, ids.tolist()))

    def token_sequences(self, ids: NDArray[np.int64]) -> list[tuple[str, ...]]:
        """The tokens of each record: private text, for attacks and scores that read
        values.
        """
        return list(self.sequences(self.tokens, self.types, ids.tolist()))

    def texts(self) -> Iterator[bytes]:
        """Each record as a text, equal for equal records of two data sets, one by
        one.
        """
        for tokens in self.sequences(self.tokens, self.types, range(len(self))):
            yield storage.normalise(tokens).encode()

    def frames(self, ids: NDArray[np.int64]) -> list[Frame]:
        """The true intent and slots of each record (read as `slots_lenient`)."""
        pairs = zip(self.intent_names(ids), self.tag_sequences(ids), strict=True)
        return [Frame(intent, slots_lenient(sequence)) for intent, sequence in pairs]

    def record_hashes(self, key: bytes) -> NDArray[np.uint64]:
        """[n]: 64 bits of each record's normalised text under a key of at most 64
        bytes.

        Equal for equal texts of different corpora under one key.
        """
        texts = self.sequences(self.tokens, self.types, range(len(self)))
        hashes = (storage.text_hash(tokens, key=key) for tokens in texts)
        return np.fromiter(hashes, dtype=np.uint64, count=len(self))

    def sequences(
        self, column: NDArray[Any], names: Sequence[T], ids: Iterable[int]
    ) -> Iterator[tuple[T, ...]]:
        """The `names` of a column's indices, record by record."""
        for record in ids:
            piece = column[self.offsets[record] : self.offsets[record + 1]].tolist()
            yield tuple([names[index] for index in piece])


def open_corpus(config: DataConfig, *, data_dir: Path, cache_dir: Path) -> Corpus:
    """The corpus of a config; encoded into `cache_dir` at the first call, mapped at
    every other.

    Several processes may open the same corpus at once: one encodes, the others wait.
    The cache is keyed by the files' names, sizes and times, the label schema and the
    reader; its folders are for their owner alone, since they hold the records' text.

    Raises: InvalidData for a file that is missing or damaged; InvalidInput where
    `max_records` exceeds the records there are.
    """
    path = data_path(config, data_dir=data_dir)
    files = config.files(path)
    schema = label_schema(config, data_dir=data_dir)
    states = [_state(file) for file in files]
    labels = asdict(schema)
    del labels["tokenize"]  # it does not change the encoded corpus
    by_hash = config.split == "hash"
    rule = ["parts by hash"] if by_hash else []
    made_of = config.recipe()
    key = digest_of([_FORMAT, config.name, states, made_of, labels, *rule])[:16]

    def encode(folder: Path) -> None:
        storage.write(folder, config.read(path), schema=schema, by_hash=by_hash)

    folder = make_once(cache_dir, f"{config.name}-{key}", encode)
    columns = storage.read(folder)
    if (
        config.max_records is not None
        and config.max_records != columns.meta["num_records"]
    ):
        columns = _subset(config, columns, folder)
    undeclared = undeclared_inputs(config, schema=schema)
    rest: dict[str, Any] = {
        "types": columns.types,
        "meta": columns.meta,
        **columns.arrays,
    }
    return Corpus(config.name, schema, undeclared, **rest)


def data_path(config: DataConfig, *, data_dir: Path) -> Path:
    """The file or folder of a config's records: `data.path` where it is given, taken
    below `data_dir` if it is there and else as it is, otherwise the data set's usual
    place under `data_dir`. It need not exist.
    """
    given = path_of(config)
    if given is None:
        return data_dir / config.place
    return _place(given, data_dir)


def label_schema(config: DataConfig, *, data_dir: Path) -> LabelSchema:
    """The labels of the corpus: those of `data.schema_file` where it is given.

    Raises: InvalidData for a schema or corpus that is missing or damaged.
    """
    if isinstance(config, FramesConfig) and config.schema_file is not None:
        return read_schema(_place(config.schema_file, data_dir))
    found: LabelSchema = config.labels(data_path(config, data_dir=data_dir))
    return found


def undeclared_inputs(config: DataConfig, *, schema: LabelSchema) -> tuple[str, ...]:
    """Public inputs of a trial that were read from private records, one reason each."""
    reasons = []
    if not schema.public:
        reasons.append(
            "the label sets were read from the private records (no data.schema_file)"
        )
    if not config.is_public and config.num_records is None:
        reasons.append(
            "the number of training records was counted on the private records"
            " (no data.num_records)"
        )
    return tuple(reasons)


def _place(path: str, data_dir: Path) -> Path:
    """An absolute path as it is; any other under the data directory, or else from
    here.
    """
    given = Path(path).expanduser()
    return data_dir / given if (data_dir / given).exists() else given


def _subset(
    config: DataConfig, columns: storage.Columns, folder: Path
) -> storage.Columns:
    """`max_records` records of the pool, drawn by `split_seed`, as a corpus of its
    own.
    """
    n, wanted = columns.meta["num_records"], config.max_records
    assert wanted is not None  # ensured by the caller
    refuse_too_many(wanted, n, public=config.is_public)
    ids = np.sort(generator(config.split_seed, "subset").permutation(n)[:wanted])
    name = f"{folder.name}-{wanted}-{config.split_seed}"
    made = make_once(
        folder.parent, name, lambda target: storage.write_subset(target, columns, ids)
    )
    return storage.read(made)


def make_once(cache_dir: Path, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` in `cache_dir`, which `make` fills on the first call, in a
    temporary folder that then takes its name: it appears whole or not at all. One
    process makes it while the others wait; a later call returns it unread. Only its
    owner can open it.
    """
    folder = cache_dir / name
    if folder.exists():
        return folder
    make_folder(cache_dir)
    with alone(cache_dir / f".{name}.lock"):
        if folder.exists():
            return folder
        for leftover in cache_dir.glob(
            f".making-{name}-*"
        ):  # of a process that was killed
            shutil.rmtree(leftover)
        partial = Path(
            tempfile.mkdtemp(prefix=f".making-{name}-", dir=cache_dir)
        )  # mode 0700
        try:
            make(partial)
            flush_tree(partial)
            os.replace(partial, folder)
        except OSError as error:
            raise failure_of(error, cache_dir) or error from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def _state(file: Path) -> list[str | int]:
    """A value that changes with a file, without reading it (its size and time)."""
    found = file.stat()
    return [str(file.resolve()), found.st_size, found.st_mtime_ns]

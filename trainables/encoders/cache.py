"""The rows of a corpus, computed once and memory-mapped: shared by all trials of all sweeps.

A folder for each corpus, encoder and recipe, readable by its owner only, because rows reveal
private text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.data.batches import Loader, PackedBatch
from trainables.data.corpus import Corpus, make_once
from trainables.data.storage import token_places
from trainables.errors import InvalidData

# Maps of files by name: float16[total tokens, .] where it begins with `token`, else float16[n, .].
CachedRows = Mapping[str, NDArray[np.float16]]
Join = Callable[[Sequence[CachedRows]], dict[str, Tensor]]  # of the encoders that read a batch
_FORMAT = 4  # of the rows; raise it whenever an encoder reads the same words otherwise
_TOKENS_AT_ONCE = 2_048
_KEPT_BYTES = 1 << 30  # a repeated batch (full batches) is kept up to this size
_PASS_BYTES = 1 << 28  # and a larger one is read in parts of this size


@dataclass(eq=False)
class CachedTable:
    """Batches of cached rows of encoders, joined, instead of a model's feature table."""

    parts: Sequence[CachedRows]
    offsets: NDArray[np.int64]
    join: Join
    _last: tuple[bytes, dict[str, Tensor]] = field(default=(b"", {}))

    def collate_records(self, records: NDArray[np.int64]) -> dict[str, Tensor]:
        """All kinds of rows of these records, float32 [T, .] and [B, .], by name."""
        key = records.tobytes()
        if self._last[0] == key:
            return self._last[1]
        starts = self.offsets[records]
        where = token_places(starts, self.offsets[records + 1] - starts)
        found = self.join(
            [
                {n: rows[where if _is_of_tokens(n) else records] for n, rows in part.items()}
                for part in self.parts
            ]
        )
        if sum(tensor.nbytes for tensor in found.values()) <= _KEPT_BYTES:
            self._last = (key, found)
        return found


def joined(parts: Sequence[CachedRows], *, bias: float) -> dict[str, Tensor]:
    """The rows of k encoders for the same words, float32, by name: side by side, those of the heads
    divided by the root of k and with `bias` behind them, so that they are as long as one encoder's.
    """
    found = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        of_each = [part[name] for part in parts if name in part]
        is_read = name in ("tokens", "records")  # by the heads; the others are scored by names
        constant = np.full((len(of_each[0]), int(is_read)), bias, dtype=np.float32)
        out = np.concatenate([*of_each, constant], axis=1, dtype=np.float32)
        if is_read:
            out[:, :-1] *= np.float32(len(parts) ** -0.5)
        found[name] = torch.from_numpy(out)
    return found


def cached_rows(
    corpus: Corpus,
    loader: Loader,
    compute: Callable[[PackedBatch], Mapping[str, Tensor]],
    *,
    recipe: Mapping[str, Any],
    cache_dir: Path,
) -> CachedRows:
    """The rows of all records, computed from the loader's batches by `compute` at the first call.

    Names that begin with `token` are of tokens, the others of records. `recipe` identifies the
    encoder's content and settings, which the rows depend on beside the corpus.

    Raises: InvalidData where the files of the cache are damaged.
    """

    def make(new: Path) -> None:
        out: dict[str, np.memmap[Any, Any]] = {}
        ids = np.arange(corpus.num_records, dtype=np.int64)
        for places, batch in loader.evaluation_batches(ids, max_tokens=_TOKENS_AT_ONCE):
            starts = corpus.offsets[places]
            of_tokens = token_places(starts, corpus.offsets[places + 1] - starts)
            for name, rows in compute(batch).items():
                if name not in out:
                    out[name] = np.lib.format.open_memmap(
                        new / f"{name}.npy",
                        mode="w+",
                        dtype=np.float16,
                        shape=(_length(name, corpus), rows.shape[1]),
                    )
                out[name][of_tokens if _is_of_tokens(name) else places] = rows.half().numpy()
        for mapped in out.values():
            mapped.flush()

    about = json.dumps([_FORMAT, corpus.fingerprint, dict(recipe)], sort_keys=True)
    folder = make_once(cache_dir, f"rows-{hashlib.sha256(about.encode()).hexdigest()[:24]}", make)
    try:
        rows = {file.stem: np.load(file, mmap_mode="r") for file in sorted(folder.glob("*.npy"))}
    except (OSError, ValueError):
        rows = {}
    if not {"tokens", "records"} <= rows.keys() or any(
        len(each) != _length(name, corpus) for name, each in rows.items()
    ):
        raise InvalidData(
            f"expected whole features in the cache folder {folder}, got damaged ones; delete it"
            " to compute them again"
        )
    return rows


def _is_of_tokens(name: str) -> bool:
    return name.startswith("token")


def _length(name: str, corpus: Corpus) -> int:
    return corpus.num_tokens if _is_of_tokens(name) else corpus.num_records


def records_at_once(lengths: NDArray[np.int64], *, token: int, record: int) -> int | None:
    """How many records of a batch to read at a time; None where all fit, and are kept.

    `lengths` [B] in tokens, each of `token` numbers beside the record's `record` ones.

    >>> records_at_once(np.full(1_000, 10), token=800, record=800)
    >>> records_at_once(np.full(1_000_000, 10), token=800, record=800)
    7626
    """
    if 4 * (int(lengths.sum()) * token + len(lengths) * record) <= _KEPT_BYTES:
        return None
    return max(1, _PASS_BYTES // (4 * (int(lengths.max()) * token + record)))

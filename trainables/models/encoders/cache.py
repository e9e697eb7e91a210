"""The rows of a corpus, computed once and memory-mapped: shared by all trials of all
sweeps.

A folder for each corpus, encoder and recipe, readable by its owner only, because rows
reveal private text.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainables.data.batches import Loader, PackedBatch
from trainables.data.corpus import Corpus, make_once
from trainables.data.storage import token_places
from trainables.errors import InvalidData
from trainables.io.documents import digest_of
from trainables.system import phase

# Maps of files by name: float16[total tokens, .] where it begins with `token`, else
# float16[n, .].
CachedRows = Mapping[str, NDArray[np.float16]]
Places = NDArray[np.int64]
# of rows and moments; raise it whenever an encoder reads the same words otherwise
FORMAT = 4
_TOKENS_AT_ONCE = 2_048
# Each record in a pass of its own, where its parts are by hash: a batch moves the last
# digits of a row, and with them a prediction that is nearly a tie.
_ALONE = 1


def cached_rows(
    corpus: Corpus,
    loader: Loader,
    compute: Callable[[PackedBatch], Mapping[str, Tensor]],
    *,
    recipe: Mapping[str, Any],
    cache_dir: Path,
) -> CachedRows:
    """The rows of all records, computed from the loader's batches by `compute` at the
    first call.

    `recipe` identifies the encoder's content and settings, which they depend on as
    well.

    Raises: InvalidData where the files of the cache are damaged.
    """

    most = _TOKENS_AT_ONCE if corpus.part_keys is None else _ALONE

    def make(new: Path) -> None:
        out: dict[str, np.memmap[Any, Any]] = {}
        done = 0
        ids = np.arange(corpus.num_records)
        for records, batch in loader.evaluation_batches(ids, max_tokens=most):
            for name, rows in compute(batch).items():
                if name not in out:
                    shape = _length(name, corpus), rows.shape[1]
                    out[name] = np.lib.format.open_memmap(
                        new / f"{name}.npy", mode="w+", dtype=np.float16, shape=shape
                    )
                out[name][places_of(name, records, corpus.offsets)] = (
                    rows.half().numpy()
                )
            done += len(records)
            phase.enter(f"features: {done / len(ids):.0%}")
        for mapped in out.values():
            mapped.flush()

    key = digest_of([FORMAT, corpus.fingerprint, dict(recipe)])[:24]
    folder = make_once(cache_dir, f"rows-{key}", make)
    try:
        rows = {
            file.stem: np.load(file, mmap_mode="r")
            for file in sorted(folder.glob("*.npy"))
        }
    except (OSError, ValueError, EOFError):
        rows = {}
    if not {"tokens", "records"} <= rows.keys() or any(
        len(each) != _length(name, corpus) for name, each in rows.items()
    ):
        raise InvalidData(
            f"expected whole features in the cache folder {folder}, got damaged ones;"
            " delete it to compute them again"
        )
    return rows


def places_of(name: str, records: Places, offsets: Places) -> Places:
    """The rows of these records in a file: of all their tokens, or one of each."""
    starts = offsets[records]
    is_of_tokens = name.startswith("token")
    return (
        token_places(starts, offsets[records + 1] - starts) if is_of_tokens else records
    )


def _length(name: str, corpus: Corpus) -> int:
    return corpus.num_tokens if name.startswith("token") else corpus.num_records

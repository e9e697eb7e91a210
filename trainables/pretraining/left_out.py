"""Texts that two public corpora share, listed once and kept in the repository.

Where a public corpus plays the private one, texts that it shares with a pretraining
corpus are left out by a fixed list, because a list computed from a private corpus would
be a release of it. `texts/NAME.txt` has one line for each shared text of corpus NAME,
16 hex digits of BLAKE2b of the normalised text. `python -m
trainables.pretraining.left_out NAME OTHER...` prints such a list.
"""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue
from trainables.config.trial import data_config
from trainables.data.corpus import open_corpus
from trainables.errors import InvalidInput

_LISTS = Path(__file__).with_name("texts")
_NO_KEY = b""  # the corpora are public, so the hash need not hide anything


def listed_corpora() -> list[str]:
    """Names of the corpora that have a list of texts in the repository, sorted: the
    values of `leave_out`.
    """
    return sorted(each.stem for each in _LISTS.glob("*.txt"))


def hashes_of_texts(names: Iterable[str]) -> NDArray[np.uint64]:
    """The hashes of all texts that the lists of these corpora name, sorted.

    Raises: InvalidInput for a corpus without a list.
    """
    found: set[int] = set()
    for name in names:
        path = _LISTS / f"{name}.txt"
        if not path.is_file():
            raise InvalidInput(
                f"expected leave_out from {', '.join(listed_corpora())}, got {name!r}"
            )
        found |= {int(line, 16) for line in path.read_text().split()}
    return np.array(sorted(found), dtype=np.uint64)


def shared_texts(
    name: str, others: Iterable[str], *, data_dir: Path, cache_dir: Path
) -> list[str]:
    """The lines of the list of `name`: its texts that occur in one of `others`, all
    public.

    Raises: InvalidInput for a corpus that is not public.
    """
    hashes = []
    for each in (name, *others):
        if not catalogue.entry("datasets", each, kind="frames").is_public:
            raise InvalidInput(f"expected public corpora, got {each}")
        corpus = open_corpus(
            data_config(name=each), data_dir=data_dir, cache_dir=cache_dir
        )
        hashes.append(np.unique(corpus.record_hashes(_NO_KEY)))
    common = np.intersect1d(hashes[0], np.concatenate(hashes[1:]))
    return [f"{value:016x}" for value in common.tolist()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        data = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
        lines = shared_texts(
            sys.argv[1], sys.argv[2:], data_dir=data, cache_dir=Path(cache)
        )
    sys.stdout.writelines(f"{line}\n" for line in lines)

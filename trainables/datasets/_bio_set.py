"""The functions that public data sets in the form `seq.in` / `seq.out` / `label` have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainables.data import bio_files
from trainables.data.configs import FrameFiles
from trainables.data.records import LabelSchema, Utterance
from trainables.data.schema import shipped_pool_size, shipped_schema


@dataclass(frozen=True)
class BioSet:
    """The functions of a data set's file; its labels and its size are shipped."""

    name: str

    def default_path(self) -> str:
        """Place under the data directory."""
        return self.name

    def files(self, path: Path, *, config: FrameFiles) -> tuple[Path, ...]:
        """The files to read. Raises: InvalidData where one is missing."""
        return bio_files.files(path)

    def read(self, path: Path, *, config: FrameFiles) -> Iterator[Utterance]:
        """All parts. Raises: InvalidData, see `bio_files.read`."""
        return bio_files.read(path)

    def schema(self, path: Path, *, config: FrameFiles) -> LabelSchema:
        """The union of the labels over all parts."""
        return shipped_schema(self.name)

    def pool_size(self, config: FrameFiles) -> int | None:
        """Distinct utterances at the usual place; None elsewhere."""
        return shipped_pool_size(self.name, self.name) if config.path is None else None

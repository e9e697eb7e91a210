"""SNIPS: requests to a voice assistant, seven intents (Coucke et al. 2018, arXiv:1805.10190)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trainables.data import bio_files
from trainables.data import configs as data_configs
from trainables.data.records import LabelSchema, Utterance
from trainables.data.schema import shipped_pool_size, shipped_schema

KIND = "frames"
PUBLIC = True
LICENCE = "CC0 1.0"


class Config(data_configs.FrameFiles):
    """The fields of `data` with `name: snips`."""

    name: Literal["snips"] = "snips"


def default_path() -> str:
    """Place under the data directory."""
    return "snips"


def files(path: Path, *, config: Config) -> tuple[Path, ...]:
    """The files to read. Raises: InvalidData where one is missing."""
    return bio_files.files(path)


def read(path: Path, *, config: Config) -> Iterator[Utterance]:
    """All parts. Raises: InvalidData, see `bio_files.read`."""
    return bio_files.read(path)


def schema(path: Path, *, config: Config) -> LabelSchema:
    """The union of the labels over all parts: 7 intents, 39 slots."""
    return shipped_schema("snips")


def pool_size(config: Config) -> int | None:
    """Distinct utterances at the usual place; None elsewhere."""
    return shipped_pool_size("snips", default_path()) if config.path is None else None

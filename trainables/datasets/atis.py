"""ATIS: spoken questions about flights (Hemphill et al. 1990), split as in Goo et al. 2018."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trainables.data import bio_files
from trainables.data import configs as data_configs
from trainables.data.records import LabelSchema, Utterance
from trainables.data.schema import shipped_pool_size, shipped_schema

KIND = "frames"
DEFAULT = True
PUBLIC = True
LICENCE = "LDC (LDC93S5, LDC94S19, LDC95S26)"


class Config(data_configs.FrameFiles):
    """The fields of `data` with `name: atis`."""

    name: Literal["atis"] = "atis"


def default_path() -> str:
    """Place under the data directory."""
    return "atis"


def files(path: Path, *, config: Config) -> tuple[Path, ...]:
    """The files to read. Raises: InvalidData where one is missing."""
    return bio_files.files(path)


def read(path: Path, *, config: Config) -> Iterator[Utterance]:
    """All parts. Raises: InvalidData, see `bio_files.read`."""
    return bio_files.read(path)


def schema(path: Path, *, config: Config) -> LabelSchema:
    """The union of the labels over all parts: 26 intents, 83 slots."""
    return shipped_schema("atis")


def pool_size(config: Config) -> int | None:
    """Distinct utterances at the usual place; None elsewhere."""
    return shipped_pool_size("atis", default_path()) if config.path is None else None

"""SNIPS, voice-assistant queries: Coucke et al. 2018, arXiv:1805.10190.

Folders train, dev and test of `seq.in`, `seq.out` and `label`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainables.config import DataConfig
from trainables.data import schemas
from trainables.data.records import LabelSchema, Utterance
from trainables.datasets import _bio

PUBLIC = True


def default_path() -> str:
    """Its folder under the data directory."""
    return "snips"


def declared(config: DataConfig) -> schemas.Schema:
    """The schema that the project ships: the union of the labels of the three parts."""
    schemas.refuse_made_fields(config)
    return schemas.shipped("snips")


def files(path: Path) -> tuple[Path, ...]:
    """The nine files that are read."""
    return _bio.files(_bio.required_parts(path))


def read(path: Path, *, config: DataConfig) -> Iterator[Utterance]:
    """Utterances of train, dev (validation) and test, in this order."""
    yield from _bio.read(_bio.required_parts(path))


def schema(path: Path, *, config: DataConfig) -> LabelSchema:
    """The public labels."""
    return declared(config).labels()

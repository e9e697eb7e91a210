"""Bases of data sets of utterances with frames: a user's own files, public corpora
whose labels ship with the package, and generated corpora.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from trainables.config.sections import DataConfig, Seed
from trainables.data.records import LabelSchema, Utterance
from trainables.data.schema import parse_schema, schema_of, shipped, shipped_size
from trainables.data.synthetic import ALGORITHM, Domain, generate
from trainables.errors import InvalidInput
from trainables.fields import MAX_ROWS


class FromFiles(DataConfig):
    """Records in files."""

    path: str | None = None
    """file or folder; default: the data set's folder under $SWEEP_DATA_DIR"""


def path_of(config: DataConfig) -> str | None:
    """The file or folder that a config names; None where it names none."""
    return config.path if isinstance(config, FromFiles) else None


def refuse_too_many(wanted: int, found: int, *, public: bool) -> None:
    """Refuse `max_records` above the number of records. Raises: InvalidInput; of
    private records without their number, because plans and reports keep the message.
    """
    if wanted > found:
        known = f" ({found})" if public else ""
        raise InvalidInput(
            f"expected data.max_records to be at most the number of records{known}, got"
            f" {wanted}"
        )


class FramesConfig(DataConfig):
    """Utterances with an intent and slots."""

    kind = "frames"

    schema_file: str | None = None
    """public label schema (JSON); default: the one shipped for the corpus"""

    def labels(self, path: Path) -> LabelSchema:
        """The labels of the records in `path` where no `schema_file` has them; by
        default those found in the private records, a release that no epsilon covers.

        Raises: InvalidData as `read`.
        """
        return schema_of(self.read(path), source=f"read from {path}", public=False)


class FrameFiles(FromFiles, FramesConfig):
    """Utterances with frames in files."""


class ShippedFrames(FrameFiles):
    """A public corpus whose labels and size ship with the package, for its files at
    their usual place.
    """

    is_public = True
    has_one_place: ClassVar[bool] = False
    """whether a file elsewhere has the same labels"""

    def labels(self, path: Path) -> LabelSchema:
        """The union of the labels over all parts. Those of a file or folder elsewhere
        count where they are not all among the shipped ones.
        """
        known = parse_schema(shipped(self.name), f"{self.name}.json")
        if self.path is None or self.has_one_place:
            return known
        source = f"all labels of {path.name}"
        found = schema_of(self.read(path), source=source, public=True)
        intents, slots = {*found.intents}, {*found.slots}
        return (
            known if intents <= {*known.intents} and slots <= {*known.slots} else found
        )

    def pool_size(self) -> int | None:
        """Distinct utterances at the usual place; None elsewhere."""
        return shipped_size(self.name, self.place) if self.path is None else None


class MadeFrames(FramesConfig):
    """Utterances that a grammar makes; they exist in the cache alone."""

    is_public = True
    licence = "made by this project"
    domain: ClassVar[Domain]
    """the grammar"""

    num_utterances: Annotated[int, Field(ge=1_000, le=MAX_ROWS)] | None = None
    """number of generated utterances; default: 10,000"""
    seed: Seed = 0
    """seed of the grammar's choices"""
    spelling_noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    """share of words of three letters or more that are misspelt"""
    label_noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    """share of intents, and of slots, that have another's label"""

    def files(self, path: Path) -> tuple[Path, ...]:
        """None: nothing is read."""
        return ()

    def recipe(self) -> str:
        """Of the grammar, seed, size and noise."""
        content = [ALGORITHM, asdict(self.domain), self.seed, self.pool_size()]
        noise = [self.spelling_noise, self.label_noise]
        content += noise if any(noise) else []
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def read(self, path: Path) -> Iterator[Utterance]:
        """The utterances, generated lazily; `path` is not read."""
        return generate(
            self.domain,
            seed=self.seed,
            size=self.pool_size(),
            spelling=self.spelling_noise,
            labels=self.label_noise,
        )

    def labels(self, path: Path) -> LabelSchema:
        """The grammar's."""
        return self.domain.schema

    def pool_size(self) -> int:
        """The configured number of utterances, which are distinct, or 10,000."""
        return self.num_utterances or 10_000

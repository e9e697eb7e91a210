"""A corpus made from a grammar, with the functions of an entry of the shelf of data sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainables.data import drawing, grammar
from trainables.data.configs import MadeFrames
from trainables.data.grammar import Domain
from trainables.data.records import LabelSchema, Utterance


@dataclass(frozen=True)
class Made:
    """The functions of a data set's file, for one grammar."""

    domain: Domain

    def default_path(self) -> str:
        """None: a made corpus exists in the cache alone."""
        return f"made/{self.domain.name}"

    def files(self, path: Path, *, config: MadeFrames) -> tuple[Path, ...]:
        """None: nothing is read."""
        return ()

    def recipe(self, config: MadeFrames) -> str:
        """Hash of everything that determines the utterances."""
        return self.domain.recipe(config)

    def read(self, path: Path, *, config: MadeFrames) -> Iterator[Utterance]:
        """The utterances of a config, generated lazily."""
        return drawing.generate(
            self.domain,
            seed=config.seed,
            size=grammar.num_utterances(config),
            spelling=config.spelling_noise,
            labels=config.label_noise,
        )

    def schema(self, path: Path, *, config: MadeFrames) -> LabelSchema:
        """The grammar's labels."""
        return self.domain.schema

    def pool_size(self, config: MadeFrames) -> int | None:
        """The configured number of utterances, which are distinct."""
        return grammar.num_utterances(config)

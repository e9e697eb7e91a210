"""A user's own pairs as JSON lines, one object a record.

    {"utterance": "cancel my lunch", "lispress": "(Yield (...))", "dialogue_id": "17"}

`lispress` may be left out where only the utterances are known; `dialogue_id`, `domain` and `part`
(train, validation, test) are optional.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trainables.data import configs as data_configs
from trainables.data.pairs import Pair, pair_files, read_pairs

KIND = "pairs"
PUBLIC = False


class Config(data_configs.PairFiles):
    """The fields of `data` with `name: pair_lines`."""

    name: Literal["pair_lines"] = "pair_lines"


def default_path() -> str:
    """Place under the data directory; usually `data.path` names another."""
    return "pairs.jsonl"


def files(path: Path, *, config: Config) -> tuple[Path, ...]:
    """What is read. Raises: InvalidData where it is missing."""
    return pair_files(path)


def read(path: Path, *, config: Config) -> Iterator[Pair]:
    """The pairs in the order of the files. Raises: InvalidData, see `data.pairs.read_pairs`."""
    for file in pair_files(path):
        yield from read_pairs(file)


def pool_size(config: Config) -> int | None:
    """Not known without counting private records."""
    return None

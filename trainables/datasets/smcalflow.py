"""SMCalFlow 2.0: requests to a calendar and their Lispress (Semantic Machines et al., TACL 2020).

The official `train`/`valid.dataflow_dialogues.jsonl.zip`, or files of pairs: a folder with either,
or one file. The official validation file has 14,751 user turns; the pairs of it are the 13,496 that
count ("skip": false). The official test part was never published.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trainables.data import configs as data_configs
from trainables.data.pairs import Pair, pair_files, read_pairs

KIND = "pairs"
PUBLIC = True


class Config(data_configs.PairFiles):
    """The fields of `data` with `name: smcalflow`."""

    name: Literal["smcalflow"] = "smcalflow"


def default_path() -> str:
    """Place under the data directory."""
    return "smcalflow2"


def files(path: Path, *, config: Config) -> tuple[Path, ...]:
    """What is read. Raises: InvalidData where it is missing."""
    return pair_files(path)


def read(path: Path, *, config: Config) -> Iterator[Pair]:
    """All parts that are there. Raises: InvalidData, see `data.pairs.read_pairs`."""
    for file in pair_files(path):
        yield from read_pairs(file)


def pool_size(config: Config) -> int | None:
    """Depends on which parts are there."""
    return None

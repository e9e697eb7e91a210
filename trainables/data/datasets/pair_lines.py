"""A user's own pairs as JSON lines, one object a record.

    {"utterance": "cancel my lunch", "lispress": "(Yield (...))", "dialogue_id": "17"}

`lispress` may be left out where only the utterances are known; `dialogue_id`, `domain`
and `part` (train, validation, test) are optional.
"""

from typing import Literal

from trainables.data import configs as data_configs
from trainables.data.pairs import PairSet

PUBLIC = False


class Config(data_configs.PairFiles):
    """The fields of `data` with `name: pair_lines`."""

    name: Literal["pair_lines"] = "pair_lines"


_SET = PairSet("pairs.jsonl")
default_path, files, read, pool_size = (
    _SET.default_path,
    _SET.files,
    _SET.read,
    _SET.pool_size,
)

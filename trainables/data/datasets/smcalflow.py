"""SMCalFlow 2.0: requests to a calendar and their Lispress (Semantic Machines et al.,
TACL 2020).

The official `train`/`valid.dataflow_dialogues.jsonl.zip`, or files of pairs: a folder
with either, or one file. The official validation file has 14,751 user turns; the pairs
of it are the 13,496 that count ("skip": false). The official test part was never
published.
"""

from typing import Literal

from trainables.data import configs as data_configs
from trainables.data.pairs import PairSet

PUBLIC = True
SOURCE = (
    "https://github.com/microsoft/task_oriented_dialogue_as_dataflow_synthesis, its"
    " folder datasets/SMCalFlow-2.0"
)


class Config(data_configs.PairFiles):
    """The fields of `data` with `name: smcalflow`."""

    name: Literal["smcalflow"] = "smcalflow"


_SET = PairSet("smcalflow2")
default_path, files, read, pool_size = (
    _SET.default_path,
    _SET.files,
    _SET.read,
    _SET.pool_size,
)

"""ATIS: spoken questions about flights (Hemphill et al. 1990), split as in Goo et al.
2018.

26 intents, 83 slots.
"""

from typing import Literal

from trainables.data import configs as data_configs
from trainables.data.datasets.bio_folder import files as files
from trainables.data.datasets.bio_folder import read as read
from trainables.data.schema import ShippedSet

PUBLIC = True
LICENCE = "LDC (LDC93S5, LDC94S19, LDC95S26)"
SOURCE = "https://github.com/monologg/JointBERT, its folder data/atis"


class Config(data_configs.FrameFiles):
    """The fields of `data` with `name: atis`."""

    name: Literal["atis"] = "atis"


_SET = ShippedSet("atis", "atis")
default_path, schema, pool_size = _SET.default_path, _SET.schema, _SET.pool_size

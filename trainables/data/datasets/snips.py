"""SNIPS: requests to a voice assistant, seven intents (Coucke et al. 2018,
arXiv:1805.10190).

39 slots.
"""

from typing import Literal

from trainables.data import configs as data_configs
from trainables.data.datasets.bio_folder import files as files
from trainables.data.datasets.bio_folder import read as read
from trainables.data.schema import ShippedSet

PUBLIC = True
LICENCE = "CC0 1.0"
SOURCE = "https://github.com/monologg/JointBERT, its folder data/snips"


class Config(data_configs.FrameFiles):
    """The fields of `data` with `name: snips`."""

    name: Literal["snips"] = "snips"


_SET = ShippedSet("snips", "snips")
default_path, schema, pool_size = _SET.default_path, _SET.schema, _SET.pool_size

"""ATIS."""

from typing import Literal

from trainables.data.configs import ShippedFrames
from trainables.data.datasets.bio_folder import BioFiles


class Atis(BioFiles, ShippedFrames):
    """ATIS: spoken questions about flights (Hemphill et al. 1990), split as in Goo et
    al. 2018.

    26 intents, 83 slots.
    """

    licence = "LDC (LDC93S5, LDC94S19, LDC95S26)"
    source = "https://github.com/monologg/JointBERT, its folder data/atis"
    place = "atis"
    has_one_place = True

    name: Literal["atis"] = "atis"

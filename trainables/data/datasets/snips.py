"""SNIPS."""

from typing import Literal

from trainables.data.configs import ShippedFrames
from trainables.data.datasets.bio_folder import BioFiles


class Snips(BioFiles, ShippedFrames):
    """SNIPS: requests to a voice assistant, seven intents (Coucke et al. 2018,
    arXiv:1805.10190).

    39 slots.
    """

    licence = "CC0 1.0"
    source = "https://github.com/monologg/JointBERT, its folder data/snips"
    place = "snips"
    has_one_place = True

    name: Literal["snips"] = "snips"

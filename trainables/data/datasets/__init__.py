"""Data sets. `ENTRIES` lists them by the names that configs use.

Each is a class with its fields and abilities, a `DataConfig` of one of two kinds.
"frames": utterances with an intent and slots. "pairs": utterances with a program. Bases
stand in `trainables.data.configs` and `trainables.data.pairs`.
"""

from trainables.data.datasets.atis import Atis
from trainables.data.datasets.bio_folder import BioFolder
from trainables.data.datasets.communication import Communication
from trainables.data.datasets.health import Health
from trainables.data.datasets.json_lines import JsonLines
from trainables.data.datasets.nlu_eval import NluEval
from trainables.data.datasets.pair_lines import PairLines
from trainables.data.datasets.sgd_dialogues import SgdDialogues
from trainables.data.datasets.smcalflow import SmCalFlow
from trainables.data.datasets.snips import Snips
from trainables.data.datasets.treedst import TreeDst
from trainables.data.datasets.video import Video

ENTRIES = {
    "atis": Atis,
    "bio_folder": BioFolder,
    "communication": Communication,
    "health": Health,
    "json_lines": JsonLines,
    "nlu_eval": NluEval,
    "pair_lines": PairLines,
    "sgd_dialogues": SgdDialogues,
    "smcalflow": SmCalFlow,
    "snips": Snips,
    "treedst": TreeDst,
    "video": Video,
}
DEFAULT = "atis"

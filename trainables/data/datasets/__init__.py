"""Data sets. `ENTRIES` lists them by the names that configs use.

Each is a class with its fields and abilities, a `DataConfig` of one of two kinds.
"frames": utterances with an intent and slots. "pairs": utterances with a program. Bases
stand in `trainables.data.configs` and `trainables.data.pairs`.
"""

ENTRIES = {
    "atis": "atis:Atis",
    "bio_folder": "bio_folder:BioFolder",
    "communication": "communication:Communication",
    "health": "health:Health",
    "json_lines": "json_lines:JsonLines",
    "nlu_eval": "nlu_eval:NluEval",
    "pair_lines": "pair_lines:PairLines",
    "sgd_dialogues": "sgd_dialogues:SgdDialogues",
    "smcalflow": "smcalflow:SmCalFlow",
    "snips": "snips:Snips",
    "treedst": "treedst:TreeDst",
    "video": "video:Video",
}
DEFAULT = "atis"

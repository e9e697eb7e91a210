"""Readers of corpora. Each file is one corpus, of one of two kinds.

"frames": utterances with an intent and slots; `read` yields `Utterance`, `schema` gives
its labels. "pairs": utterances with a program; `read` yields `Pair`.

`files` lists the files to read, `default_path` is the place under the data directory,
`pool_size` the number of distinct utterances where it is public, `PUBLIC` whether the
records are, `SOURCE` where a public one is published. A made corpus has no files; its
`recipe` is a hash of everything that determines its utterances.
"""

ENTRIES = {
    "atis": "frames",
    "bio_folder": "frames",
    "communication": "frames",
    "health": "frames",
    "json_lines": "frames",
    "nlu_eval": "frames",
    "pair_lines": "pairs",
    "sgd_dialogues": "frames",
    "smcalflow": "pairs",
    "snips": "frames",
    "treedst": "pairs",
    "video": "frames",
}
DEFAULT = "atis"

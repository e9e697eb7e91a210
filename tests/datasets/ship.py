"""Makes the label schemas that ship, from the public corpora in a data directory.

    python -m tests.datasets.ship DATA_DIR

For the person who adds a corpus or a reader: run it, look at the difference, commit.
The schema of a corpus is the union of the labels over all its files, its pool size the
distinct utterances (lower-cased, white space normalised) that the reader yields, its
train size those of them whose first occurrence is in the official training part.
"""

import sys
from importlib import resources
from pathlib import Path

from trainables.config.trial import data_config
from trainables.data import schemas
from trainables.data.schema import schema_of, to_json
from trainables.data.storage import normalise

_SOURCES = {
    "atis": "union over train, dev and test of ATIS as split by Goo et al. 2018",
    "snips": "union over train, dev and test of SNIPS as split by Goo et al. 2018",
    "nlu_eval": "union over the 10 folds of NLU-EVAL (Liu et al. 2019)",
    "sgd_dialogues": "union over the prepared turns of Schema-Guided Dialogue (Rastogi"
    " 2020)",
}


def shipped_text(name, data_dir):
    """The text of `schemas/<name>.json`, computed from the corpus at its usual
    place.
    """
    config = data_config(name=name)
    utterances = list(config.read(data_dir / config.place))
    schema = schema_of(utterances, source=_SOURCES[name], public=True)
    parts = {}
    for utterance in utterances:
        parts.setdefault(normalise(utterance.tokens), utterance.part)
    train = sum(part == "train" for part in parts.values())
    place = config.place
    return to_json(schema, pool_size={place: len(parts)}, train_size={place: train})


if __name__ == "__main__":
    for corpus in _SOURCES:
        target = Path(str(resources.files(schemas))) / f"{corpus}.json"
        target.write_text(shipped_text(corpus, Path(sys.argv[1])))

"""The n of a mechanism: one rule for the plan that accounts it and the trial that runs it."""

from __future__ import annotations

from trainables.config import DataConfig
from trainables.data.corpus import Corpus
from trainables.data.schema import declared_training_size
from trainables.data.split import make_split, training_size


def num_training_records(config: DataConfig, corpus: Corpus) -> int:
    """n as declared, or, where nothing is, by the corpus' size (see `Corpus.undeclared`).

    In the modes with coins it is the expected number, not the one that this trial's coins gave.
    """
    declared = declared_training_size(config)
    if declared is not None:
        return declared
    if config.split == "official":
        return len(make_split(config, corpus=corpus, mask_seed=0).train)
    return training_size(corpus.num_records, config)

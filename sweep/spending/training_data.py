"""The data set of a trial's epsilon: its fingerprint, and the records that it can share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sweep.settings import Settings
from sweep.store.data_sets import open_data, open_pair_data
from trainables.config import TrialConfig
from trainables.data.corpus import Corpus
from trainables.data.pairs import PairCorpus
from trainables.data.storage import normalise


@dataclass(frozen=True)
class TrainingData:
    """`texts()` gives each record as a text, equal for equal records of two data sets."""

    fingerprint: str
    name: str
    texts: Callable[[], Iterator[bytes]]


def training_data(config: TrialConfig, settings: Settings) -> TrainingData:
    """The data set of a config.

    Raises: InvalidInput for data that cannot be used.
    """
    if config.generates:
        pairs = open_pair_data(config.data, settings)
        return TrainingData(pairs.fingerprint, pairs.name, lambda: _pair_texts(pairs))
    corpus = open_data(config.data, settings)
    return TrainingData(corpus.fingerprint, corpus.name, lambda: _texts(corpus))


def _texts(corpus: Corpus, chunk: int = 65_536) -> Iterator[bytes]:
    """The texts of the records, read in chunks."""
    for low in range(0, len(corpus), chunk):
        ids = np.arange(low, min(low + chunk, len(corpus)))
        for tokens in corpus.token_sequences(ids):
            yield normalise(tokens).encode()


def _pair_texts(pairs: PairCorpus) -> Iterator[bytes]:
    for utterance in pairs.utterances:
        yield normalise(tuple(utterance.split())).encode()

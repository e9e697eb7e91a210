"""The data sets of configs, opened once a process; what the epsilon of a trial is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from sweep import phases
from sweep.settings import Settings
from sweep.store.sweeps import require_storage
from trainables import catalogue
from trainables.config import DataConfig, TrialConfig
from trainables.data.corpus import Corpus, data_path, open_corpus
from trainables.data.pairs import PairCorpus, open_pairs
from trainables.data.storage import normalise
from trainables.errors import InvalidData


@lru_cache(maxsize=16)
def open_pair_data(config: DataConfig, settings: Settings) -> PairCorpus:
    """The pairs of a config.

    Raises: InvalidData for a file that is missing or damaged.
    """
    phases.enter(phases.LOADING)
    return open_pairs(config, data_dir=settings.data_dir)


@lru_cache(maxsize=64)
def open_data(config: DataConfig, settings: Settings) -> Corpus:
    """The corpus of a config, encoded at the first call.

    Raises: InvalidData for a file that is missing or damaged; as `require_storage`.
    """
    phases.enter(phases.LOADING)
    require_storage(settings, check=partial(Path.mkdir, mode=0o700, parents=True, exist_ok=True))
    return open_corpus(config, data_dir=settings.data_dir, cache_dir=settings.cache_dir)


def is_at_hand(config: DataConfig, settings: Settings) -> bool:
    """Whether a corpus' files exist; a generated corpus needs none."""
    place = data_path(config, data_dir=settings.data_dir)
    try:
        catalogue.entry("datasets", config.name).files(place, config=config)
    except InvalidData:
        return False
    return True


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

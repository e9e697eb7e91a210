"""The opened public corpora of a pretraining, split into training and held-out records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue
from trainables.data.batches import Loader
from trainables.data.corpus import Corpus, open_corpus
from trainables.errors import InvalidInput
from trainables.models._bert import Bert
from trainables.pretraining.config import PretrainingConfig
from trainables.pretraining.left_out import hashes_of_texts
from trainables.seeding import generator

_HELD_OUT = 0.02  # of a corpus, to see how far training is; at most:
_MOST_HELD_OUT = 500


@dataclass(frozen=True, eq=False)
class PublicCorpus:
    """One corpus: `train` and `held_out` are ids of its records, `left_out` counts those whose
    text a list names, `unlabelled` those with a label outside of the schema.
    """

    corpus: Corpus
    loader: Loader
    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    left_out: int
    unlabelled: int

    @property
    def licence(self) -> str:
        """As its entry states it; empty where it does not."""
        return str(getattr(catalogue.entry("datasets", self.corpus.name), "LICENCE", ""))


def open_corpora(
    config: PretrainingConfig, encoder: Bert, *, data_dir: Path, cache_dir: Path
) -> tuple[PublicCorpus, ...]:
    """All corpora of a pretraining, in its order.

    Raises: InvalidInput for one that is missing, damaged or without a record to train on.
    """
    leave_out = hashes_of_texts(config.leave_out)
    found = []
    for number, each in enumerate(config.corpora):
        corpus = open_corpus(each, data_dir=data_dir, cache_dir=cache_dir)
        gone = np.isin(corpus.record_hashes(b""), leave_out)
        usable = np.flatnonzero(~gone & ~corpus.outside).astype(np.int64)
        if len(usable) < 2:
            raise InvalidInput(f"expected at least 2 records in corpora[{number}] ({each.name})")
        order = generator(config.seed, "pretraining", number).permutation(usable)
        out = min(_MOST_HELD_OUT, max(1, round(_HELD_OUT * len(order))))
        found.append(
            PublicCorpus(
                corpus=corpus,
                loader=Loader(corpus, encoder.feature_table(corpus.types)),
                train=np.sort(order[out:]),
                held_out=np.sort(order[:out]),
                left_out=int(gone.sum()),
                unlabelled=int((corpus.outside & ~gone).sum()),
            )
        )
    return tuple(found)

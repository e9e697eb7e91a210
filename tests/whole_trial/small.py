"""Small models of every kind that trains on private records, and records for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.models._builds import MODELS, SCHEMA, TYPES, build_model
from tests.models._texts import LETTERS, Letters, small_lm
from trainables.data.batches import PackedBatch
from trainables.data.texts import EncodedTexts
from trainables.models.nlu.base import NluModel

NUM_RECORDS = 12
LANGUAGE_MODELS = ("causal_lm", "causal_lm, adapters")
KINDS = (*MODELS, *LANGUAGE_MODELS)


@dataclass
class Utterances:
    """A loader of random tagged utterances, the record's number being all that they
    depend on.
    """

    model: NluModel
    table: Any

    def batch(self, ids):
        each = [np.random.default_rng(int(record)) for record in ids]
        lengths = np.array([rng.integers(1, 7) for rng in each])
        numbers = [
            rng.integers(0, len(TYPES), n) for rng, n in zip(each, lengths, strict=True)
        ]
        tags = [
            rng.integers(0, len(SCHEMA.tags), n)
            for rng, n in zip(each, lengths, strict=True)
        ]
        return PackedBatch(
            inputs=self.table.collate(
                np.concatenate(numbers).astype(np.int32), lengths
            ),
            lengths=torch.from_numpy(lengths),
            intents=torch.tensor(
                [int(rng.integers(len(SCHEMA.intents))) for rng in each]
            ),
            tags=torch.from_numpy(np.concatenate(tags)),
            text_keys=torch.from_numpy(np.asarray(ids, dtype=np.int64)),
        )


def texts():
    """Random words, every other one behind a prompt."""
    rng = np.random.default_rng(0)
    words = [
        "".join(rng.choice(list(LETTERS), rng.integers(1, 12)))
        for _ in range(NUM_RECORDS)
    ]
    prompts = [word[:3] if number % 2 else None for number, word in enumerate(words)]
    return EncodedTexts(words, Letters(), max_tokens=24, prompts=prompts)


def model_and_loader(kind, *, dropout):
    """A fresh model of `kind` and the loader of its records 0, ..., NUM_RECORDS - 1."""
    if kind in MODELS:
        model = build_model(kind, dropout=dropout)
        return model, Utterances(model, model.feature_table(TYPES))
    lm = small_lm(dropout=dropout)
    if kind == "causal_lm, adapters":
        torch.manual_seed(0)
        lm.adapt(rank=2, alpha=4.0)
    return lm, texts()

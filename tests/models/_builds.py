"""Small models of both kinds, and random packed batches for them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from search_spaces.foreign import own_fields
from trainables import catalogue
from trainables.config import model_part
from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.models._nlu import NluModel

SCHEMA = LabelSchema(
    intents=tuple("abcde"), slots=tuple(f"slot{n}" for n in range(6)), source="invented"
)
TYPES = ("flights", "from", "Boston", "to", "o'clock", "4:30pm", "é", "$", "x" * 40, "18th")
TOLERANCE = 1e-4  # clip factors count what float32 may round
FULLY: dict[str, dict[str, object]] = {
    "clc": {"name": "clc", "hidden_size": 16, "word_buckets": 30, "word_dim": 6},
    "clc, one layer, frozen words": {
        "name": "clc",
        "hidden_size": 40,
        "num_layers": 1,
        "word_buckets": 30,
        "freeze_embeddings": True,
    },
    "bert": {
        "name": "bert",
        "hidden_size": 24,
        "num_heads": 2,
        "num_layers": 2,
        "word_buckets": 40,
        "intermediate_size": 40,
    },
    "bert, frozen tables": {
        "name": "bert",
        "hidden_size": 48,
        "num_heads": 4,
        "num_layers": 1,
        "word_buckets": 40,
        "freeze_embeddings": True,
    },
}
_CLC, _BERT = FULLY["clc"], FULLY["bert"]
PARTLY: dict[str, dict[str, object]] = {
    "clc, heads": {**_CLC, "trained": "heads"},
    "clc, biases of the top layer": {**_CLC, "trained": "biases", "top_layers": 1},
    "clc, adapters": {**_CLC, "trained": "lora", "lora_rank": 2},
    "bert, heads": {**_BERT, "trained": "heads"},
    "bert, biases": {**_BERT, "trained": "biases"},
    "bert, adapters of the top layer": {
        **_BERT, "trained": "lora", "lora_rank": 2, "top_layers": 1,
    },
}  # fmt: skip
MODELS = FULLY | PARTLY


def read_fields(fields: dict[str, object]) -> dict[str, object]:
    """Those that a model reads beside the others."""
    own: dict[str, object] = own_fields({"model": fields})[0]["model"]
    return own


def build_model(name: str, **changes: object) -> NluModel:
    config = model_part(**read_fields({"dropout": 0.2} | MODELS[name] | changes))
    return catalogue.entry("models", config.name).build(config, schema=SCHEMA, seed=0)


def random_batch(model: NluModel, num_records: int, *, seed: int) -> PackedBatch:
    """Lengths 1 to 8, words that repeat, ids 100, 101, ..."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, num_records)
    token_ids = rng.integers(0, len(TYPES), lengths.sum()).astype(np.int32)
    return PackedBatch(
        inputs=model.feature_table(TYPES).collate(token_ids, lengths),
        lengths=torch.from_numpy(lengths),
        intents=torch.from_numpy(rng.integers(0, len(SCHEMA.intents), num_records)),
        tags=torch.from_numpy(rng.integers(0, len(SCHEMA.tags), lengths.sum())),
        text_keys=torch.arange(100, 100 + num_records),
    )


def assert_bounds(found: Tensor, norms: Tensor) -> None:
    """Norms are upper bounds: what float32 may round is in them, and no more."""
    assert bool((found >= norms * (1 - 1e-6)).all())
    torch.testing.assert_close(found, norms, rtol=TOLERANCE, atol=0)


def trained(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]

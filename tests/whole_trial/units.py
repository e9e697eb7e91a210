"""Records of any shape, and the clipped sum that a whole engine makes of chosen units
of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from tests.engines.engine_checks import engine_on, mechanism
from tests.models._builds import (
    ADAPTED,
    FULLY,
    SCHEMA,
    TYPES,
    build_model,
    built,
    encoder_in,
)
from tests.models._texts import LETTERS, Letters, llama, small_lm, with_adapters
from trainables.data.batches import PackedBatch
from trainables.data.texts import EncodedTexts
from trainables.dp.layers import rounding

MOST_CHARACTERS = 240  # of a text for a language model
SHAPES = ("one word", "random", "repeated", "cancelling")

TAGGER = """
from torch import nn

class Tagger(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.words = nn.Embedding(40, 8)
        self.tags = nn.Linear(8, len(labels.tags))
        self.intents = nn.Linear(8, len(labels.intents))

    def forward(self, words):
        x = self.words(words)
        return self.tags(x), self.intents(x.mean(1))

def build(labels):
    return Tagger(labels)
"""


@dataclass
class Utterances:
    """A loader of utterances that are added one by one, from 0 on.

    "cancelling" is one word under each tag equally often, without a known intent, so
    that the gradients of a head's rows add up to nearly nothing where all tags are as
    likely.
    """

    table: Any
    keeps_inputs: bool = (
        False  # as a trial keeps the rows of an encoder: once for each record
    )
    records: list[tuple[np.ndarray, np.ndarray, int]] = field(default_factory=list)
    kept: list[dict[str, torch.Tensor]] = field(default_factory=list)

    def add(self, shape: str, length: int, *, seed: int) -> int:
        """The number of a new record of `length` words."""
        rng = np.random.default_rng([seed, length])
        words = rng.integers(0, len(TYPES), length)
        tags = rng.integers(0, len(SCHEMA.tags), length)
        intent = int(rng.integers(len(SCHEMA.intents)))
        if shape != "random":
            words[:] = words[0]
        if shape == "repeated":
            tags[:] = tags[0]
        if shape == "cancelling":
            tags, intent = np.arange(length) % len(SCHEMA.tags), -1
        self.records.append((words.astype(np.int32), tags, intent))
        if self.keeps_inputs:
            self.kept.append(
                self.table.collate(self.records[-1][0], np.array([length]))
            )
        return len(self.records) - 1

    def lengths(self, ids: np.ndarray) -> np.ndarray:
        """As `data.batches.Loader.lengths`, by which records of like length pass
        together.
        """
        return np.array([len(self.records[i][0]) for i in ids], dtype=np.int64)

    def batch(self, ids: np.ndarray) -> PackedBatch:
        """See `engines.engine.Loader`."""
        words, tags, intents = zip(*(self.records[i] for i in ids), strict=True)
        lengths = np.array([len(each) for each in words])
        if self.keeps_inputs:
            own = [self.kept[i] for i in ids]
            inputs = {name: torch.cat([each[name] for each in own]) for name in own[0]}
        else:
            inputs = self.table.collate(np.concatenate(words), lengths)
        return PackedBatch(
            inputs=inputs,
            lengths=torch.from_numpy(lengths),
            intents=torch.tensor(intents),
            tags=torch.from_numpy(np.concatenate(tags)),
            text_keys=torch.from_numpy(np.asarray(ids, dtype=np.int64)),
        )


@dataclass
class Texts:
    """The same of texts for a language model; "cancelling" are two letters in turn."""

    texts: list[str] = field(default_factory=list)
    encoded: EncodedTexts | None = None

    def add(self, shape: str, length: int, *, seed: int) -> int:
        """The number of a new text of `length` characters, cut to the longest
        allowed.
        """
        rng = np.random.default_rng([seed, length])
        length = min(length, MOST_CHARACTERS)
        letters = rng.choice(list(LETTERS), length)
        if shape in ("one word", "repeated"):
            letters[:] = letters[0]
        if shape == "cancelling":
            letters[::2], letters[1::2] = "a", "b"
        self.texts.append("".join(letters))
        return len(self.texts) - 1

    def batch(self, ids: np.ndarray) -> Any:
        """See `engines.engine.Loader`."""
        if self.encoded is None or len(self.encoded) != len(self.texts):
            self.encoded = EncodedTexts(
                self.texts, Letters(), max_tokens=MOST_CHARACTERS + 2
            )
        return self.encoded.batch(ids)


def features(**fields: Any) -> Any:
    """Heads away from their start, where all of their gradients are alike."""
    model = built(name="features", **fields)
    torch.manual_seed(0)
    for head in (model.intent_head, model.tag_head):
        torch.nn.init.normal_(head.weight, std=0.5)
    return model


def _joined() -> Any:
    shipped = built(name="features").config.encoder
    return features(
        encoder=[*np.atleast_1d(shipped).tolist(), encoder_in("roberta")[0]]
    )


LMS = {
    "causal_lm": lambda: small_lm_of(MOST_CHARACTERS + 2),
    "causal_lm, adapters": lambda: with_adapters(small_lm_of(MOST_CHARACTERS + 2)),
    "llama, adapters": lambda: with_adapters(
        llama(max_position_embeddings=MOST_CHARACTERS + 4)
    ),
}
NLU = {
    **{name: lambda name=name: build_model(name, dropout=0.0) for name in FULLY},
    **{name: lambda name=name: build_model(name) for name in ADAPTED},
    "features": features,
    "features, neighbours": lambda: features(neighbours=0.5),
    "features, joined": _joined,
}
KINDS = (*NLU, *LMS, "module")


def small_lm_of(positions: int) -> Any:
    """`small_lm` with room for longer texts."""
    small = small_lm()
    torch.manual_seed(0)
    return type(small)(replace(small.sizes, positions=positions))


def own_module(folder: Any, monkeypatch: Any) -> Any:
    """A user's module, from a file in `folder`."""
    (folder / "unit_tagger.py").write_text(TAGGER)
    monkeypatch.syspath_prepend(folder)
    return built(name="module", factory="unit_tagger:build", word_buckets=40)


def model_and_loader(kind: str, *, own: Any = None) -> tuple[Any, Any]:
    """A model of `kind`, of KINDS, with the same weights each time, and a loader
    without records; `own` is the one of the kind "module".
    """
    torch.manual_seed(0)
    if kind in LMS:
        return LMS[kind](), Texts()
    model = own if kind == "module" else NLU[kind]()
    loader = Utterances(
        model.feature_table(TYPES), keeps_inputs=kind.startswith("features")
    )
    return model, loader


def silent(engine: str = "dp_sgd", **fields: Any) -> Any:
    """A mechanism without noise, so that a step releases the sum itself."""
    return replace(mechanism(engine, **fields), noise_multiplier=0.0)


def sum_of(
    mech: Any, model: Any, loader: Any, units: list[list[int]], **setup: Any
) -> Any:
    """float64[D]: the engine's clipped sum of these units, in units of C.

    With full batches the mechanism's own sampler draws, of records that are numbered in
    order.
    """
    ids = np.array([record for unit in units for record in unit])
    is_drawn = (
        mech.sampling == "full" and mech.microbatch_size == 1 and mech.unit == "record"
    )
    made = engine_on(
        mech, ids, None if is_drawn else units, model=model, loader=loader, ids=ids,
        groups=ids if mech.unit == "group" else None, learning_rate=0.0, **setup,
    )  # fmt: skip
    made.step(0, 0)
    return made.released.double() * mech.num_microbatches / mech.max_grad_norm


def with_the_longest_of_the_batch(monkeypatch: Any) -> None:
    """Restore the fault that this file is about: each unit's bound read the longest
    unit's rows.
    """
    right = rounding.Size.rounding.fget

    def wrong(self: Any) -> Any:
        return right(self._replace(terms=self.terms.max().expand_as(self.terms)))

    monkeypatch.setattr(rounding.Size, "rounding", property(wrong))

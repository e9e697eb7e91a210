"""A record's loss and gradient do not depend on the other records of its batch.

Sensitivity rests on this: one record more changes no other one's gradient. Every model
of every task reads the record alone, with others, in another order, and beside longer
ones (more padding where a model pads), in training with dropout where the model has
any. In float64, because float32's rounding of one gradient reaches 2e-4 on some
processors, which would hide a real dependence.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.models._builds import MODELS, SCHEMA, TYPES, build_model, trained
from tests.models._texts import (
    EVERY,
    Letters,
    encode_texts,
    llama,
    small_lm,
    with_adapters,
)
from trainables.config.trial import model_part
from trainables.data.batches import PackedBatch
from trainables.dp.engines.gradient import GradientSource
from trainables.dp.flat import FlatGradient, Layout
from trainables.models.text.hub_lm import HubLm

NUM_RECORDS = len(EVERY)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, and `batch(ids)` of its records; the last one is the longest."""

    model: nn.Module
    batch: Callable[[np.ndarray], Any]
    tolerance: float = (
        1e-11  # float64's rounding, which differs with the shape of a product
    )

    def losses(self, ids, *, training=True):
        self.begin(training)
        return self.model.losses(self.batch(np.array(ids))).detach()

    def gradient(self, ids, record, *, training=True):
        """Of `record`, which is one of `ids`, by a pass in which the others have weight
        0.
        """
        self.begin(training)
        out = FlatGradient(Layout.of(self.model))
        weights = torch.tensor([float(i == record) for i in ids])
        GradientSource(self.model).add(self.batch(np.array(ids)), weights, out)
        return out.data.clone()

    def begin(self, training):
        self.model.train(training)
        if hasattr(self.model, "begin_step"):
            self.model.begin_step(3, 1)


def features():
    """Heads over rows of the encoder that ships, which are float32 of a deep model: to
    1e-4.
    """
    model = model_part(name="features", layers=(2,)).build(schema=SCHEMA, seed=0)
    torch.manual_seed(0)
    for head in (model.intent_head, model.tag_head):
        nn.init.normal_(head.weight)
    return model


def nlu(model, *, tolerance=Trained.tolerance):
    rng = np.random.default_rng(1)
    lengths = np.array([1, 4, 2, 7, 3, 5, 20])
    tokens = [rng.integers(0, len(TYPES), n).astype(np.int32) for n in lengths]
    tags = [rng.integers(0, len(SCHEMA.tags), n) for n in lengths]
    intents = rng.integers(0, len(SCHEMA.intents), len(lengths))
    table = model.feature_table(TYPES)

    def batch(ids):
        return PackedBatch(
            inputs=table.collate(
                np.concatenate([tokens[i] for i in ids]), lengths[ids]
            ),
            lengths=torch.from_numpy(lengths[ids]),
            intents=torch.from_numpy(intents[ids]),
            tags=torch.from_numpy(np.concatenate([tags[i] for i in ids])),
            text_keys=torch.from_numpy(ids + 100),
        )

    return Trained(model, batch, tolerance)


def opt():
    """Dropout in modules and functions, and whole layers left out."""
    from transformers import OPTConfig, OPTForCausalLM

    torch.manual_seed(0)
    about = OPTConfig(
        vocab_size=Letters.size, hidden_size=24, ffn_dim=40, num_hidden_layers=2,
        num_attention_heads=3, max_position_embeddings=64, word_embed_proj_dim=24, dropout=0.3,
        attention_dropout=0.3, layerdrop=0.3, pad_token_id=1, bos_token_id=2, eos_token_id=2,
    )  # fmt: skip
    return with_adapters(HubLm(OPTForCausalLM(about), provenance="random"))


def bloom():
    """Biases of attention by distance, dropout in its blocks."""
    from transformers import BloomConfig, BloomForCausalLM

    torch.manual_seed(0)
    about = BloomConfig(
        vocab_size=Letters.size, hidden_size=24, n_layer=2, n_head=3, hidden_dropout=0.3,
        attention_dropout=0.3,
    )  # fmt: skip
    return with_adapters(HubLm(BloomForCausalLM(about), provenance="random"))


TEXT_MODELS = {
    "scratch": lambda: small_lm(dropout=0.3),
    "scratch_with_adapters": lambda: with_adapters(small_lm(dropout=0.3)),
    "opt": opt,
    "bloom": bloom,
    # Rotated positions, dropout on attention alone.
    "llama": lambda: with_adapters(llama(attention_dropout=0.3)),
}


@functools.cache
def of(name):
    if name == "features":
        return nlu(features(), tolerance=1e-3)
    if name in MODELS:
        return nlu(build_model(name, dropout=0.3).double())
    model, texts = TEXT_MODELS[name]().double(), encode_texts(prompted=True)
    # BLOOM's attention is float32 in any model: its weights are right to 1e-7.
    return Trained(model, texts.batch, 1e-6 if name == "bloom" else Trained.tolerance)


@pytest.mark.parametrize("name", [*MODELS, "features", *TEXT_MODELS])
@given(
    order=st.permutations(range(NUM_RECORDS)),
    number=st.integers(1, NUM_RECORDS),
    with_longest=st.booleans(),
    training=st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_neighbours_change_neither_loss_nor_gradient(
    name, order, number, with_longest, training
):
    own, ids = of(name), order[:number]
    if with_longest and NUM_RECORDS - 1 not in ids:
        ids = [*ids, NUM_RECORDS - 1]
    record = ids[len(ids) // 2]
    together, alone = (own.losses(each, training=training) for each in (ids, [record]))
    within = own.tolerance
    torch.testing.assert_close(
        together[ids.index(record)], alone[0], rtol=within, atol=within
    )
    beside, by_itself = (
        own.gradient(each, record, training=training) for each in (ids, [record])
    )
    assert float((beside - by_itself).norm()) <= 10 * within * float(by_itself.norm())


@pytest.mark.parametrize("name", [*MODELS, "features", *TEXT_MODELS])
def test_the_comparison_sees_more_than_nothing(name):
    """Records differ, and so do their gradients."""
    own = of(name)
    losses, gradients = (
        own.losses([0, 3]),
        [own.gradient([0, 3], record) for record in (0, 3)],
    )
    assert abs(float(losses[0] - losses[1])) > 1e-3
    assert float((gradients[0] - gradients[1]).norm()) > 1e-2 * float(
        gradients[0].norm()
    )
    assert len(trained(own.model)) > 0

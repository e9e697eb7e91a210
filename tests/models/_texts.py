"""A small causal LM, a tokenizer of letters, and texts for them."""

import numpy as np
import torch
from torch import nn

from trainables.data.texts import EncodedTexts
from trainables.models.text.causal_lm import CausalLm, LmSizes
from trainables.models.text.hub_lm import HubLm

LETTERS = "abcdefghijklmnopqrstuvwxyz "
TEXTS = (
    "a cat sat",
    "ab",
    "what is it",
    "x",
    "the cat sat on the mat",
    "go go go",
    "hi you",
)
PROMPTS = ("p q", "weather", "a", "b c d", "calendar", "", "zz")


class Letters:
    """One id a letter, and three marks."""

    size = len(LETTERS) + 3
    begin, separator, end = range(len(LETTERS), len(LETTERS) + 3)

    def encode(self, text):
        return [LETTERS.index(letter) for letter in text]

    def decode(self, ids):
        return "".join(LETTERS[i] for i in ids if i < len(LETTERS))


SIZES = LmSizes(
    vocabulary=Letters.size, width=24, layers=2, heads=3, intermediate=40, positions=40
)


def small_lm(*, dropout=0.0, seed=0):
    """About 12,000 parameters."""
    return CausalLm(SIZES, dropout=dropout, seed=seed)


def encode_texts(*, prompted):
    return EncodedTexts(
        TEXTS, Letters(), max_tokens=40, prompts=PROMPTS if prompted else None
    )


EVERY = np.arange(len(TEXTS))


def with_adapters(model):
    model.adapt(rank=2, alpha=8.0)
    return moved(model)


def moved(model):
    """Adapters away from their start, where they are nothing."""
    for name, parameter in model.named_parameters():
        if name.endswith("up.weight"):
            nn.init.normal_(parameter, std=0.5)
    return model


def llama(**fields):
    """A small one, of random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {
        "vocab_size": Letters.size,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
    }
    return HubLm(LlamaForCausalLM(LlamaConfig(**(sizes | fields))), provenance="random")

"""Rows of features of whole texts: states of the shipped encoder, for MAUVE.

A middle layer's states depend on the order of words. The last layer, which is trained
for meaning, and the first, which has read no neighbours yet, hardly change when the
words of a text are shuffled. Layer 3 separates human text, shuffled words, words drawn
by frequency and random letters in every draw (`docs/guides/synthesis.md`).
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.data.batches import batch_of_texts
from trainables.models.encoders.hub import public_encoder
from trainables.models.encoders.source import HubEncoder

ENCODER, LAYER = "dialogues", 3
FEATURES = f"{ENCODER}-layer{LAYER}-mean"
_AT_ONCE = 256  # texts of one pass
_NOTHING = ("[UNK]",)  # what a text without a word is read as


class TextStates:
    """Callable: texts -> [n, 384], means over a text's pieces; a text is read once."""

    def __init__(self) -> None:
        self._known: dict[str, NDArray[np.float64]] = {}

    @cached_property
    def _encoder(self) -> HubEncoder:
        """Read at the first use, without the layers that nothing reads."""
        encoder = HubEncoder(public_encoder(ENCODER))
        del encoder.model.encoder.layer[LAYER:]
        return encoder

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Rows in the order of the texts."""
        new = sorted({*texts} - self._known.keys(), key=lambda text: (len(text), text))
        for low in range(0, len(new), _AT_ONCE):
            some = new[low : low + _AT_ONCE]
            words = [tuple(text.split()) or _NOTHING for text in some]
            with torch.no_grad():
                states = self._encoder.layer_states(
                    batch_of_texts(words, self._encoder.feature_table)
                )
            rows = states.records[LAYER].double().numpy()
            self._known.update(zip(some, rows, strict=True))
        return np.stack([self._known[text] for text in texts])

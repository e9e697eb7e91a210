"""The loss of texts under a language model, in nats per token (see `metrics.loss_filter`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trainables.data.texts import EncodedTexts, Tokenizer
from trainables.metrics.loss_filter import Fluency, mean_and_verdict


@torch.no_grad()
def fluency_of(
    texts: Sequence[str], model: Any, tokenizer: Tokenizer, *, max_tokens: int
) -> Fluency:
    """The fluency of `texts`, each read from its start to its end mark.

    `model` is an `LmModule` of utterances without prompts.
    """
    model.eval()
    encoded = EncodedTexts(texts, tokenizer, max_tokens=max_tokens)
    sums, counts = np.zeros(len(encoded)), np.zeros(len(encoded), dtype=np.int64)
    for ids in encoded.by_length(8_192):
        record, values = model.token_losses(encoded.batch(ids))
        np.add.at(sums, ids[record.numpy()], values.double().numpy())
        np.add.at(counts, ids[record.numpy()], 1)
    return mean_and_verdict(sums.tolist(), counts.tolist())

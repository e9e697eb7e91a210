"""The loss of texts under a language model, in nats per token (see `metrics.loss_filter`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.data.texts import EncodedTexts, Tokenizer
from trainables.metrics.loss_filter import Fluency, mean_and_verdict

_MAX_TOKENS = 8_192  # of a pass


@torch.no_grad()
def _sums(model: Any, texts: EncodedTexts) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of each text the sum of -log p of its counted tokens, and their number."""
    model.eval()
    device = next(model.parameters()).device
    losses, counts = np.zeros(len(texts)), np.zeros(len(texts), dtype=np.int64)
    for ids in texts.by_length(_MAX_TOKENS):
        record, values = model.token_losses(texts.batch(ids).to(device))
        where = ids[record.cpu().numpy()]
        np.add.at(losses, where, values.double().cpu().numpy())
        np.add.at(counts, where, 1)
    return losses, counts


def mean_token_loss(model: Any, texts: EncodedTexts) -> float:
    """Mean over all counted tokens of -log p, in nats."""
    losses, counts = _sums(model, texts)
    return float(losses.sum()) / max(1, int(counts.sum()))


def fluency_of(
    texts: Sequence[str], model: Any, tokenizer: Tokenizer, *, max_tokens: int
) -> Fluency:
    """The fluency of `texts`, each read from its start to its end mark.

    `model` is an `LmModule` of utterances without prompts.
    """
    losses, counts = _sums(model, EncodedTexts(texts, tokenizer, max_tokens=max_tokens))
    return mean_and_verdict(losses.tolist(), counts.tolist())

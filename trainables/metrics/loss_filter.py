"""The fluency filter: setups whose text has a high loss under a language model are excluded.

Mireshghallah et al. 2022 discard setups whose generated text has a mean loss above 2.0 under a
GPT-2 tuned on the domain, since MAUVE and overlap reward odd but diverse text. Their scoring model
read the private data; here it must be trained on public text (or with DP, and accounted).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainables.errors import InvalidInput
from trainables.figures import text_figure

THRESHOLD = 2.0
FIGURES = (
    text_figure(
        name="fluency_loss",
        label="loss under a public language model",
        better="lower",
        unit="nats per token",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Fluency:
    """`mean_loss` in nats a token over all tokens, and whether it passes the filter."""

    mean_loss: float
    passed: bool
    threshold: float


def mean_and_verdict(
    losses: Sequence[float], num_tokens: Sequence[int], *, threshold: float = THRESHOLD
) -> Fluency:
    """The mean token loss of a setup, from each text's summed loss (nats) and its tokens.

    >>> mean_and_verdict([2.0, 10.0], [2, 2], threshold=2.5)
    Fluency(mean_loss=3.0, passed=False, threshold=2.5)

    Raises: InvalidInput for sequences of different length, without a token, or a loss that is NaN
    or negative.
    """
    loss, tokens = np.asarray(losses, dtype=np.float64), np.asarray(num_tokens, dtype=np.int64)
    if loss.shape != tokens.shape or not tokens.sum() > 0 or (tokens < 0).any():
        raise InvalidInput(
            f"expected a loss and a token count for each text, got {loss.size} and {tokens.size}"
        )
    if not (loss >= 0).all():
        raise InvalidInput("expected losses >= 0, got one that is not")
    mean = float(loss.sum() / tokens.sum())
    return Fluency(mean_loss=mean, passed=mean <= threshold, threshold=threshold)

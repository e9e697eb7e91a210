"""A learning rate from the noise: what suits one number of records and one epsilon suits others."""

from __future__ import annotations

import math

from trainables.config import TotalNoise
from trainables.errors import InvalidInput
from trainables.privacy.mechanism import Mechanism


def learning_rate_of(rate: float | TotalNoise, mechanism: Mechanism) -> float:
    """The rate as a number.

    `TotalNoise` k: the rate r at which the noise of all T steps, added up without momentum, has
    standard deviation k a weight, so k = r C sqrt(sum_t s_t^2) / B. With full batches and noise for
    mu-GDP that is r = k n mu / (C T): three times the records allow three times the rate. All of
    it is declared, so nothing is spent.

    Raises: InvalidInput for `TotalNoise` where no noise is added.
    """
    if not isinstance(rate, TotalNoise):
        return rate
    if not mechanism.is_private:
        raise InvalidInput(
            "expected training.learning_rate to be a number where no noise is added, got"
            f" total_noise={rate.total_noise:g}"
        )
    squares = math.fsum(
        mechanism.steps_in(epoch) * mechanism.noise_on_sum_at(epoch) ** 2
        for epoch in range(mechanism.epochs)
    )
    noise = mechanism.max_grad_norm * math.sqrt(squares) / mechanism.expected_batch_size
    return rate.total_noise / noise

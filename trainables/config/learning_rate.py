"""A learning rate from the noise, which transfers between numbers of records and
epsilons.
"""

import math

from trainables.config.sections import TotalNoise
from trainables.dp.mechanism import Mechanism


def learning_rate_of(rate: float | TotalNoise, mechanism: Mechanism) -> float:
    """The rate as a number.

    `TotalNoise` k: the rate r at which the noise of all T steps, added up without
    momentum, has standard deviation k a weight, so k = r sqrt(sum_t v_t) / M with v_t
    the variance of the noise on a sum of M clipped units (in the group of the largest
    alpha). With full batches of records and noise for mu-GDP that is r = k n mu / (C
    T), so three times the records allow three times the rate. All inputs are declared,
    so no epsilon is spent. A config refuses `TotalNoise` where no noise is added.
    """
    if not isinstance(rate, TotalNoise):
        return rate
    variance = math.fsum(
        mechanism.steps_in(epoch)
        * mechanism.num_workers
        * mechanism.worker_noise_std_at(epoch) ** 2
        for epoch in range(mechanism.epochs)
    )
    return rate.total_noise * mechanism.num_microbatches / math.sqrt(variance)

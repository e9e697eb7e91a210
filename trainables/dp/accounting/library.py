"""The last word on an epsilon: the figures of `dp_accounting`, by its public functions
alone.

What plans and searches uses the fast forms of this package (`gaussian`, `pld`), tens of
times as fast; cards, the ledger and the answer of a calibration use these (`certify`
with effort "exact", at most some seconds). None where the library has no figure: then
our own upper bound stays, and the card says so.
"""

from functools import lru_cache

import numpy as np
from dp_accounting import NeighboringRelation, get_epsilon_gaussian
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_gaussian_mechanism,
)

from trainables.dp.accounting.pld import rounding
from trainables.dp.accounting.releases import Sampled, Step

_ADDED, _REPLACED = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
)
LARGEST_EPSILON = 700.0  # beyond it the library's e^-loss runs out of range
_LARGEST_MU = 1e4  # beyond it differences of large exponents have lost their digits


def gaussian_epsilon(mu: float, delta: float) -> float | None:
    """Epsilon at `delta` of N(mu, 1) against N(0, 1), both ways."""
    if not 0 < mu <= _LARGEST_MU:
        return None
    with np.errstate(divide="ignore"):  # the logarithm of a delta that rounds to 0
        return float(get_epsilon_gaussian(1 / mu, delta))


def epsilon_of(
    steps: tuple[Step, ...], *, delta: float, grid: float, replace_one: bool
) -> float | None:
    """Epsilon of steps as `pld.epsilon_of` takes them, on a grid of losses.

    It is asked at a delta that is smaller by what the library's sums may lose.
    """
    left = delta - rounding(steps)
    if left <= 0:
        return None
    epsilon = float(_distribution(steps, grid, replace_one).get_epsilon_for_delta(left))
    return epsilon if epsilon <= LARGEST_EPSILON else None


def profile(
    steps: tuple[Step, ...], *, grid: float, epsilons: tuple[float, ...]
) -> list[tuple[float, float]]:
    """Pairs (epsilon, delta) that hold of steps under their own relation."""
    whole, lost = _distribution(steps, grid, False), rounding(steps)
    # One after another: of several the library walks a loop.
    return [
        (at, min(1.0, float(whole.get_delta_for_epsilon(at)) + lost)) for at in epsilons
    ]


@lru_cache(maxsize=8)
def _distribution(
    steps: tuple[Step, ...], grid: float, replace_one: bool
) -> PrivacyLossDistribution:
    found = None
    for step in steps:
        # A step on all records states its sigma for the relation that is asked for.
        relation = _REPLACED if replace_one and isinstance(step, Sampled) else _ADDED
        one = from_gaussian_mechanism(
            step.sigma,
            value_discretization_interval=grid,
            sampling_prob=step.rate,
            neighboring_relation=relation,
        )
        if step.count > 1:
            one = one.self_compose(step.count)
        found = one if found is None else found.compose(one)
    return found

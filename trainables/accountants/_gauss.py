"""Epsilon of one Gaussian mechanism of mean mu and variance 1, and how Poisson sampling bounds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from scipy.special import ndtri

# Above it the library's difference of two exponents of size epsilon ~ mu^2 / 2 loses its last
# digits, and the bound below is exact to a part in 10^7.
_LARGE_MU = 1e4


@lru_cache(maxsize=65_536)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of N(mu, 1) against N(0, 1), both ways (Balle & Wang 2018, Theorem 8).

    For mu above 10^4 the upper bound mu^2 / 2 + mu * Phi^-1(1 - delta), which drops a term that
    no longer matters: delta(epsilon) <= Phi(mu / 2 - epsilon / mu).
    """
    from dp_accounting import get_epsilon_gaussian

    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return math.inf
    if mu > _LARGE_MU:
        return mu * mu / 2 - mu * float(ndtri(delta))
    return float(get_epsilon_gaussian(1 / mu, delta))


def composed_mu(phases: Sequence[tuple[float, int]]) -> float:
    """mu of all phases together: mu^2 = sum of count / sigma^2 (Dong, Roth & Su 2022)."""
    return math.sqrt(math.fsum(count / (sigma * sigma) for sigma, count in phases))


def participation_epsilon(
    phases: Sequence[tuple[float, int]], *, sample_rate: float, delta: float, shift: float = 1.0
) -> float:
    """An upper bound for Poisson-sampled phases that grants the adversary the coins.

    Given the steps that the record is in, the release is a Gaussian mechanism of
    mu^2 = sum over those steps of (shift / sigma)^2; delta(epsilon) is at most its mean over the
    coins, because the hockey-stick divergence is jointly convex. Half of `delta` pays for the coins
    of a larger mu than the Chernoff bound allows for. `shift` is 2 for replace-one of a mechanism
    whose sigma is stated for add-or-remove.
    """
    most = math.fsum(count * (shift / sigma) ** 2 for sigma, count in phases)
    unsampled = gaussian_epsilon(math.sqrt(most), delta)
    if sample_rate >= 1 or not phases:
        return unsampled
    weights = [((shift / sigma) ** 2, count) for sigma, count in phases]
    likely = _chernoff(weights, sample_rate, delta / 2)
    return min(unsampled, gaussian_epsilon(math.sqrt(min(most, likely)), delta / 2))


def _chernoff(weights: list[tuple[float, int]], q: float, tail: float) -> float:
    """x with P(sum of weight * Bernoulli(q) > x) <= tail: the least of the Chernoff bounds tried.

    Each lambda > 0 gives a valid x; the grid only costs tightness.
    """
    largest = max(weight for weight, _ in weights)
    best = math.inf
    for exponent in range(-40, 17):
        rate = 2 ** (exponent / 4)  # lambda in units of 1 / largest, so that exp stays in range
        log_moment = math.fsum(
            count * math.log1p(q * math.expm1(rate * weight / largest)) for weight, count in weights
        )
        best = min(best, (log_moment - math.log(tail)) / rate * largest)
    return best

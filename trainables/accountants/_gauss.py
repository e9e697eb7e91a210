"""Epsilon of one Gaussian mechanism of mean mu and variance 1, and a bound for sampled ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from trainables.accountants._release import Release

# Above it the library's difference of two exponents of size epsilon ~ mu^2 / 2 loses its last
# digits, and the bound below is exact to a part in 10^7.
_LARGE_MU = 1e4


@lru_cache(maxsize=65_536)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of N(mu, 1) against N(0, 1), both ways (Balle & Wang 2018, Theorem 8).

    For mu above 10^4 the upper bound mu^2 / 2 + mu * Phi^-1(1 - delta), which drops a negligible
    term: delta(epsilon) <= Phi(mu / 2 - epsilon / mu).
    """
    from dp_accounting import get_epsilon_gaussian

    if math.erf(mu / math.sqrt(8)) <= delta * (1 - 1e-12):  # delta(0), less a rounding error
        return 0.0
    if math.isinf(mu):
        return math.inf
    if mu > _LARGE_MU:
        return mu * mu / 2 - mu * float(ndtri(delta))
    # Where mu is tiny the library takes the logarithm of a difference that is 0.
    with np.errstate(divide="ignore"):
        return float(get_epsilon_gaussian(1 / mu, delta))


def composed_mu(phases: Sequence[tuple[float, int]]) -> float:
    """mu of all phases together: mu^2 = sum of count / sigma^2 (Dong, Roth & Su 2022)."""
    return math.sqrt(math.fsum(count / (sigma * sigma) for sigma, count in phases))


@dataclass(frozen=True)
class Term:
    """`count` Gaussian steps of squared mean `weight`, each on a Poisson sample of rate `rate`."""

    weight: float
    count: int
    rate: float


def terms_of(what: Release, *, shift: float = 1.0) -> list[Term]:
    """All phases of a release as terms. In a shuffled or allocated epoch each record is in exactly
    one step. `shift` is 2 for replace-one of a mechanism whose sigma is stated for add-or-remove:
    both records move the sum.
    """
    rate = what.sample_rate if what.sampling == "poisson" else 1.0
    return [
        Term((shift / sigma) ** 2, count, of)
        for phases, of in ((what.phases, rate), (what.unsampled, 1.0))
        for sigma, count in phases
    ]


def participation_epsilon(parts: Sequence[Term], *, delta: float) -> float:
    """An upper bound for Poisson-sampled steps whose sampling coins the adversary knows.

    Given the steps that the record is in, the release is a Gaussian mechanism whose mu^2 is the sum
    of their weights; delta(epsilon) is at most its mean over the coins, because the hockey-stick
    divergence is jointly convex. Half of `delta` pays for the coins of a larger mu than the
    Chernoff bound allows for.
    """
    most = math.fsum(part.count * part.weight for part in parts)
    unsampled = gaussian_epsilon(math.sqrt(most), delta)
    if all(part.rate >= 1 for part in parts) or delta / 2 == 0:  # the least float has no half
        return unsampled
    likely = min(most, _chernoff(parts, delta / 2))
    return min(unsampled, gaussian_epsilon(math.sqrt(likely), delta / 2))


def _chernoff(parts: Sequence[Term], tail: float) -> float:
    """x with P(sum of weight * Bernoulli(rate) > x) <= tail: the least of the Chernoff bounds
    tried. Each lambda > 0 gives a valid x; the grid only costs tightness.
    """
    largest = max(part.weight for part in parts)
    best = math.inf
    for exponent in range(-40, 17):
        rate = 2 ** (exponent / 4)  # lambda in units of 1 / largest, so that exp stays in range
        log_moment = math.fsum(
            part.count * _log_moment(part.rate, rate * part.weight / largest) for part in parts
        )
        best = min(best, (log_moment - math.log(tail)) / rate * largest)
    return best


def _log_moment(rate: float, exponent: float) -> float:
    """log of the moment generating function of Bernoulli(rate)."""
    return exponent if rate >= 1 else math.log1p(rate * math.expm1(exponent))

"""Epsilon of one Gaussian mechanism of mean mu and variance 1 (Balle & Wang 2018),
which steps on all records compose to (Dong, Roth & Su 2022), and a bound for other
steps.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from trainables.dp.accounting.releases import Gaussian, Sampled, Step

# Above it the difference of two exponents of size epsilon ~ mu^2 / 2 loses its last
# digits, and the bound below is exact to a part in 10^7.
_LARGE_MU = 1e4
_TOLERANCE = 1e-12  # of the search for an epsilon


@lru_cache(maxsize=65_536)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of N(mu, 1) against N(0, 1), both ways (Balle & Wang 2018,
    Theorem 8).

    For mu above 10^4 the upper bound mu^2 / 2 + mu * Phi^-1(1 - delta), which drops a
    negligible term: delta(epsilon) <= Phi(mu / 2 - epsilon / mu).
    """
    if math.erf(mu / math.sqrt(8)) <= delta * (
        1 - 1e-12
    ):  # delta(0), less a rounding error
        return 0.0
    if math.isinf(mu):
        return math.inf
    most = mu * mu / 2 - mu * float(ndtri(delta))
    if mu > _LARGE_MU:
        return most

    def excess(epsilon: float) -> float:
        """log delta(epsilon) - log delta."""
        upper, lower = map(
            float, log_ndtr([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        )
        share = -math.expm1(min(epsilon + lower - upper, -5e-324))
        return upper + math.log(share) - math.log(delta)

    if excess(0.0) <= 0:  # next to delta(0), where rounding decides
        return 0.0
    root = float(brentq(excess, 0.0, most, xtol=_TOLERANCE))
    return min(
        most, root * (1 + 5 * _TOLERANCE) + _TOLERANCE
    )  # rounded up, as a bound is


def mu_of(steps: Sequence[Step]) -> float:
    """mu of all steps where each is on all records: mu^2 = sum of count / sigma^2. An
    upper bound for others, because an allocated record is in one step of an epoch.
    """
    return math.sqrt(
        math.fsum(step.count / (step.sigma * step.sigma) for step in steps)
    )


def merge_gaussians(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps with all that are on all records as one, which their composition is."""
    whole = tuple(step for step in steps if isinstance(step, Gaussian))
    if sum(step.count for step in whole) < 2:
        return steps
    return (
        Gaussian(sigma=1 / mu_of(whole)),
        *(step for step in steps if step not in whole),
    )


@lru_cache(maxsize=4_096)
def without_amplification(steps: tuple[Step, ...], *, delta: float) -> float:
    """Epsilon of steps of which the adversary knows where the record is: exact where
    all are on all records, else an upper bound.

    Given the steps that the record is in, the release is a Gaussian mechanism whose
    mu^2 is the sum of their 1 / sigma^2; delta(epsilon) is at most its mean over the
    coins, because the hockey-stick divergence is jointly convex. Half of `delta` pays
    for the coins of a larger mu than the Chernoff bound allows for.
    """
    unsampled = gaussian_epsilon(mu_of(steps), delta)
    is_sampled = any(isinstance(step, Sampled) for step in steps)
    if not is_sampled or delta / 2 == 0:  # the least float has no half
        return unsampled
    likely = min(mu_of(steps) ** 2, _chernoff(steps, delta / 2))
    return min(unsampled, gaussian_epsilon(math.sqrt(likely), delta / 2))


def is_exact(steps: Sequence[Step]) -> bool:
    """Whether every step is on all records."""
    return all(isinstance(step, Gaussian) for step in steps)


def _chernoff(steps: Sequence[Step], tail: float) -> float:
    """x with P(sum of Bernoulli(rate) / sigma^2 > x) <= tail: the least of the Chernoff
    bounds tried. Each lambda > 0 gives a valid x; the grid only costs tightness.
    """
    largest = max(1 / step.sigma**2 for step in steps)
    best = math.inf
    for exponent in range(-40, 17):
        scale = 2 ** (
            exponent / 4
        )  # lambda in units of 1 / largest, so that exp stays in range
        log_moment = math.fsum(
            step.count * _log_moment(step, scale / (step.sigma**2 * largest))
            for step in steps
        )
        best = min(best, (log_moment - math.log(tail)) / scale * largest)
    return best


def _log_moment(step: Step, exponent: float) -> float:
    """log of the moment generating function of the membership of a record in a step."""
    return (
        math.log1p(step.rate * math.expm1(exponent))
        if isinstance(step, Sampled)
        else exponent
    )

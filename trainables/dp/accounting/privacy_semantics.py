"""The meaning of an epsilon: the nearest Gaussian mechanism, and the largest advantage
of a membership test.

Pure functions of a mechanism's guarantee: pairs (epsilon, delta), each of which holds
in both directions of the neighbouring relation. All of its pairs together are its
privacy profile. SciPy is imported only to compute figures, because cards import this
module to show known ones.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Where a profile is sampled, so that the bounds at 1 % and 0.1 % false positives are
# within 1 % of those of all pairs: beyond epsilon 7 a pair no longer limits them, and
# below 1 weak mechanisms need a finer grid.
FPRS = (0.01, 0.001)
PROFILE_EPSILONS = (
    *(step / 50 for step in range(50)),
    *(step / 10 for step in range(10, 71)),
)
PROFILE_DELTAS = tuple(10.0 ** (-step / 16) for step in range(1, 113))
# Above it the second term of a Gaussian's delta is far below the first one's last
# digits.
_LARGE_EPSILON = 5e7


@dataclass(frozen=True, kw_only=True)
class ClaimMeaning:
    """Bounds that follow from a claim (epsilon, delta).

    `gaussian_mu` is that of the nearest Gaussian mechanism (`nearest_gaussian_mu`). A
    membership test with a false-positive rate of at most 1 % (0.1 %) has a
    true-positive rate of at most `max_tpr_1pct` (`max_tpr_01pct`), and at any rate the
    two differ by at most `max_advantage`, whatever its rule and its knowledge of the
    other records.
    """

    gaussian_mu: float
    max_tpr_1pct: float
    max_tpr_01pct: float
    max_advantage: float


def meaning(
    epsilon: float, *, delta: float, profile: Iterable[tuple[float, float]] = ()
) -> ClaimMeaning:
    """What (`epsilon`, `delta`)-DP allows an attacker: the mu of the nearest Gaussian
    mechanism, the largest true-positive rates of a membership test at 1 % and 0.1 %
    false positives, and the largest difference of both rates. Sharper where further
    pairs (epsilon, delta) of the mechanism's `profile` are given, which must hold as
    well (Kairouz et al. 2015; Dong et al. 2022). Rates are shares in [0, 1].

    >>> found = meaning(3.0, delta=1e-5)
    >>> round(found.gaussian_mu, 4), round(found.max_tpr_1pct, 4), round(found.max_tpr_01pct, 4)
    (0.7191, 0.2009, 0.0201)
    """
    pairs = ((epsilon, delta), *profile)
    return ClaimMeaning(
        gaussian_mu=nearest_gaussian_mu(epsilon, delta=delta),
        max_tpr_1pct=largest_tpr(pairs, fpr=FPRS[0]),
        max_tpr_01pct=largest_tpr(pairs, fpr=FPRS[1]),
        max_advantage=largest_advantage(pairs),
    )


def tangent(mu: float, *, fpr: float) -> float:
    """The epsilon of the pair that bounds the best test of N(mu, 1) against N(0, 1) at
    a false-positive rate: e^epsilon, or its inverse, is the slope of its curve there.
    """
    from scipy.special import ndtri

    return min(abs(mu * (mu / 2 + float(ndtri(fpr)))), _LARGE_EPSILON)


def nearest_gaussian_mu(epsilon: float, *, delta: float) -> float:
    """The largest mu for which telling N(mu, 1) from N(0, 1) is (epsilon,
    delta)-private: the Gaussian mechanism that has this epsilon at this delta (Balle &
    Wang 2018, Theorem 8).

    It describes one point of the profile and is no claim of mu-Gaussian differential
    privacy.

    Raises: ValueError unless epsilon >= 0 and 0 < delta < 1.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri

    if not (epsilon >= 0 and 0 < delta < 1):
        raise ValueError(
            f"expected epsilon >= 0 and 0 < delta < 1, got {epsilon} and {delta}"
        )
    if math.isinf(epsilon):
        return math.inf
    root = float(ndtri(delta))
    low = root + math.sqrt(
        root * root + 2 * epsilon
    )  # solves the equation's first term alone
    if epsilon > _LARGE_EPSILON:
        return low
    low = max(low, 1e-300)
    high = max(
        2 * low, -2 * float(ndtri((1 - delta) / 2))
    )  # the latter has this delta at epsilon 0
    while gaussian_delta(high, epsilon) < delta:
        low, high = high, 2 * high
    return float(
        brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, low, high, rtol=1e-12)
    )


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta at `epsilon` of N(mu, 1) against N(0, 1) (Balle & Wang
    2018).
    """
    from scipy.special import log_ndtr, ndtr

    if mu == 0:
        return 0.0
    first, second = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return float(ndtr(first) - math.exp(epsilon + log_ndtr(second)))


def largest_tpr(profile: Iterable[tuple[float, float]], *, fpr: float) -> float:
    """The largest true-positive rate at a false-positive rate of at most `fpr` that
    every pair (epsilon, delta) allows (Kairouz, Oh & Viswanath 2015); 1 where none
    limits it.

    A pair holds both ways, so TPR <= e^epsilon FPR + delta and
    1 - FPR <= e^epsilon (1 - TPR) + delta.

    >>> largest_tpr([(0.0, 0.25)], fpr=0.25), largest_tpr([(math.inf, 1e-5)], fpr=0.01)
    (0.5, 1.0)
    """
    bound = 1.0
    for epsilon, delta in profile:
        exponent = epsilon + math.log(fpr) if fpr > 0 else -math.inf
        if exponent < 0:
            bound = min(bound, math.exp(exponent) + delta)
        bound = min(bound, 1 - math.exp(-epsilon) * max(0.0, 1 - delta - fpr))
    return max(bound, fpr)


def largest_advantage(profile: Iterable[tuple[float, float]]) -> float:
    """The largest TPR - FPR of any test that every pair (epsilon, delta) allows; 1
    where none limits it.

    What a pair allows is symmetric in (FPR, 1 - TPR), so that the largest difference is
    where both are equal: the least of the pairs' own bounds.

    >>> largest_advantage([(0.0, 0.25), (math.inf, 1e-5)])
    0.25
    """
    return min((max_advantage(*pair) for pair in profile), default=1.0)


def largest_roc(
    fprs: NDArray[np.float64],
    *,
    epsilon: float,
    delta: float,
    tprs: Mapping[float, float],
    advantage: float,
) -> NDArray[np.float64]:
    """The largest true-positive rates [n] at false-positive rates `fprs` [n], by what
    is known of a mechanism: a pair (epsilon, delta), the largest true-positive rates
    `tprs` at some false-positive rates, and the largest difference of the two.

    The curve of the best tests is concave and begins at (0, 0), so that a rate that is
    known at one place bounds it in proportion to its right, and is its largest to its
    left; and it is symmetric, because a pair holds both ways.

    >>> largest_roc(np.array([0.0, 0.01, 1.0]), epsilon=1.0, delta=0.0,
    ...     tprs={0.01: 0.02}, advantage=0.4).round(4).tolist()
    [0.0, 0.02, 1.0]
    """
    pairs = [(epsilon, delta)]
    found = np.array([largest_tpr(pairs, fpr=float(fpr)) for fpr in fprs])
    found = np.minimum(found, fprs + advantage)
    for at, tpr in tprs.items():
        found = np.minimum(found, np.maximum(tpr, fprs * tpr / at))
        mirrored = 1 - (1 - fprs) * at / tpr
        found = np.where(fprs < 1 - tpr, np.minimum(found, mirrored), found)
    return np.asarray(np.clip(found, fprs, 1.0))


def upper_area(
    curve: Callable[[NDArray[np.float64]], NDArray[np.float64]], *, steps: int = 2_000
) -> float:
    """An upper bound of the area below a ROC that does not fall: the sum of its values
    at the right ends of equal steps.

    >>> upper_area(lambda fpr: fpr) >= 0.5
    True
    """
    return float(curve(np.arange(1, steps + 1) / steps).mean())


def max_advantage(epsilon: float, delta: float) -> float:
    """The largest advantage (true-positive minus false-positive rate, in [0, 1]) of any
    membership test that (`epsilon`, `delta`)-DP allows: tanh(epsilon / 2) + 2 delta /
    (1 + e^epsilon) (Humphries et al. 2023). It is 1 for an infinite epsilon; a test
    that guesses has 0.

    >>> round(max_advantage(1.0, 0.0), 6)
    0.462117
    """
    return math.tanh(epsilon / 2) + 2 * delta / (1 + math.exp(min(epsilon, 700.0)))

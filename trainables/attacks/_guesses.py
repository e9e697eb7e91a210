"""Lower bounds of epsilon from correctly guessed coins (Steinke, Nasr & Jagielski 2023)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc
from scipy.stats import binom

from trainables.attacks import _estimates
from trainables.errors import InvalidInput

_LARGEST = 64.0  # no number of units that fits in memory certifies more


def p_value(
    num_units: int, num_guesses: int, num_correct: int, *, epsilon: float, delta: float
) -> float:
    """Probability bound of so many right guesses under (epsilon, delta)-DP, in [0, 1].

    min(1, beta + 2 m delta alpha) with X ~ Bin(r, q), q = e^eps / (1 + e^eps), beta = P[X >= v],
    alpha = max over 1 <= i <= v of P[v > X >= v - i] / i (Theorem 5.2).
    """
    q = 1 / (1 + math.exp(-epsilon))
    if num_correct == 0:
        return 1.0
    tail = float(betainc(num_correct, num_guesses - num_correct + 1, q))  # P[X >= v]
    if delta == 0:
        return tail
    below = np.cumsum(binom.pmf(np.arange(num_correct - 1, -1, -1), num_guesses, q))
    alpha = float((below / np.arange(1, num_correct + 1)).max())
    return min(1.0, tail + 2 * num_units * delta * alpha)


def epsilon_lower_bound(
    num_units: int, num_guesses: int, num_correct: int, *, delta: float, p: float = 0.05
) -> float:
    """The largest epsilon that the guesses reject at level `p`; 0 where they reject none.

    `num_units` m, `num_guesses` r, `num_correct` v.

    >>> round(epsilon_lower_bound(1_000, 100, 95, delta=1e-5), 4)
    2.1652

    Raises: InvalidInput unless 0 <= v <= r <= m, r >= 1, 0 <= delta < 1 and 0 < p < 1.
    """
    _check(num_units, num_guesses, num_correct, delta=delta, p=p)
    return _estimates.largest_rejected(
        lambda epsilon: p_value(num_units, num_guesses, num_correct, epsilon=epsilon, delta=delta),
        p=p,
        upper=_LARGEST,
    )


def epsilon_estimate_fdp(
    num_units: int, num_guesses: int, num_correct: int, *, delta: float, p: float = 0.05
) -> float:
    """Estimate of epsilon at `delta` under a Gaussian trade-off curve (f-DP); no certificate."""
    _check(num_units, num_guesses, num_correct, delta=delta, p=p)
    return _estimates.fdp(num_units, num_guesses, num_correct, delta=delta, p=p)


def _check(num_units: int, num_guesses: int, num_correct: int, *, delta: float, p: float) -> None:
    if not 0 <= num_correct <= num_guesses <= num_units or num_guesses < 1:
        raise InvalidInput(
            "expected 0 <= correct <= guesses <= units and at least one guess, got"
            f" correct={num_correct}, guesses={num_guesses}, units={num_units}"
        )
    _estimates.require_delta(delta)
    if not 0 < p < 1:
        raise InvalidInput(f"expected 0 < p < 1, got p={p}")

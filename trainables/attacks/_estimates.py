"""Estimates of epsilon from scores, without a certificate (names `epsilon_estimate_*`).

fdp: one-run audit of a hypothesised trade-off curve (Mahloujifar, Melis & Chaudhuri 2025): it
rejects "mu-Gaussian DP", not "(epsilon, delta)-DP". gdp: the mu whose AUC this is. cp:
Clopper-Pearson counts over many records of one run, which are no independent trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, log_ndtr, ndtr, ndtri

from trainables.attacks._signals import Bools, Floats
from trainables.errors import InvalidInput
from trainables.metrics.membership import roc
from trainables.seeding import generator


def require_delta(delta: float) -> None:
    """Raises: InvalidInput unless 0 <= delta < 1."""
    if not 0 <= delta < 1:
        raise InvalidInput(f"expected 0 <= delta < 1, got delta={delta}")


def largest_rejected(
    p_value: Callable[[float], float], *, p: float, upper: float, tolerance: float = 1e-7
) -> float:
    """sup {x in [0, upper]: p_value(x) < p} of a non-decreasing p-value; 0 where 0 is accepted."""
    if p_value(0.0) >= p:
        return 0.0
    low, high = 0.0, upper
    if p_value(high) < p:
        return high
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if p_value(middle) < p else (low, middle)
    return low


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of a mu-Gaussian mechanism (Balle & Wang 2018)."""
    if mu <= 0:
        return 0.0
    first = ndtr(mu / 2 - epsilon / mu)
    second = math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return float(max(0.0, first - second))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """epsilon(delta) of a mu-Gaussian mechanism; inf at delta 0.

    >>> round(gaussian_epsilon(0.9249, 1e-5), 3)
    4.0
    """
    if mu <= 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0:
        return math.inf
    upper = 1.0
    while gaussian_delta(mu, upper) > delta:
        upper *= 2
    return largest_rejected(
        lambda epsilon: -gaussian_delta(mu, epsilon), p=-delta, upper=upper, tolerance=1e-9
    )


def fdp(num_units: int, num_guesses: int, num_correct: int, *, delta: float, p: float) -> float:
    """epsilon(delta) of the largest mu whose Gaussian trade-off curve the guesses reject.

    The recursion of Mahloujifar et al. 2025 (algorithm "rh with cap") on the curve
    Phi(Phi^-1(x) - mu).
    """

    def rejects(mu: float) -> bool:
        right = p * num_correct / num_units
        wrong = p * (num_guesses - num_correct) / num_units
        for done in range(num_correct - 1, -1, -1):
            bound = float(ndtr(ndtri(min(right, 1.0)) - mu))
            if bound > wrong:
                right += done / (num_guesses - done) * (bound - wrong)
                wrong = bound
            if right + wrong > num_guesses / num_units:
                return True
        return False

    if num_correct == 0:
        return 0.0
    mu = largest_rejected(lambda mu: 0.0 if rejects(mu) else 1.0, p=0.5, upper=20.0, tolerance=1e-6)
    return gaussian_epsilon(mu, delta)


def gdp(auc: float, *, delta: float) -> float:
    """epsilon(delta) of the mu-Gaussian mechanism with this AUC, Phi(mu / sqrt 2); 0 below 0.5."""
    if auc >= 1:
        return math.inf
    return gaussian_epsilon(math.sqrt(2) * float(ndtri(max(auc, 0.5))), delta)


def clopper_pearson_epsilon(
    true_positives: int,
    num_members: int,
    false_positives: int,
    num_nonmembers: int,
    *,
    delta: float,
    p: float = 0.05,
) -> float:
    """ln((1 - FNR - delta) / FPR) with exact upper bounds at p / 2 each (Jagielski et al. 2020).

    A certificate where the counts are of independent trials (repeated runs, repeated steps).
    """
    for hits, trials in ((true_positives, num_members), (false_positives, num_nonmembers)):
        if not 0 <= hits <= trials or trials < 1:
            raise InvalidInput(f"expected counts with 0 <= hits <= trials, got {hits} of {trials}")
    fnr = _upper(num_members - true_positives, num_members, p / 2)
    fpr = _upper(false_positives, num_nonmembers, p / 2)
    power = 1 - fnr - delta
    return max(0.0, math.log(power / fpr)) if power > 0 else 0.0


def clopper_pearson_of_scores(
    scores: Floats, member: Bools, *, delta: float, p: float = 0.05, seed: int = 0
) -> float:
    """`clopper_pearson_epsilon` at a threshold chosen on a random half of the records and counted
    on the other half, because counting on the same half would overfit.
    """
    half = generator(seed, "clopper_pearson").random(len(scores)) < 0.5
    for side in (half, ~half):
        if member[side].all() or not member[side].any():
            return 0.0
    curve = roc(scores[half], member[half])
    missed = curve.num_members - curve.true_positives
    fnr = betaincinv(missed + 1, curve.true_positives, 1 - p / 2)
    fpr = betaincinv(
        curve.false_positives + 1, curve.num_nonmembers - curve.false_positives, 1 - p / 2
    )
    fnr, fpr = np.nan_to_num(fnr, nan=1.0), np.nan_to_num(fpr, nan=1.0)
    threshold = curve.thresholds[int(np.argmax((1 - fnr - delta) / fpr))]
    called, members = scores[~half] >= threshold, member[~half]
    return clopper_pearson_epsilon(
        int((called & members).sum()),
        int(members.sum()),
        int((called & ~members).sum()),
        int((~members).sum()),
        delta=delta,
        p=p,
    )


def _upper(hits: int, trials: int, tail: float) -> float:
    """One-sided exact upper bound of a share."""
    return 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - tail))

"""Estimates of epsilon from scores, without a certificate (names `epsilon_estimate_*`).

fdp: one-run audit of a hypothesised trade-off curve (Mahloujifar, Melis & Chaudhuri
2025): it rejects "mu-Gaussian DP", not "(epsilon, delta)-DP". gdp: the mu whose AUC
this is. cp: Clopper-Pearson counts over many records of one run, which are no
independent trials.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from trainables.attacks._signals import Bools, Floats
from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.audit.audit import epsilon_lower_bound
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput
from trainables.metrics.membership import roc

_ERROR = 0.05  # of `clopper_pearson_of_scores`


def require_delta(delta: float) -> None:
    """Raises: InvalidInput unless 0 <= delta < 1."""
    if not 0 <= delta < 1:
        raise InvalidInput(f"expected 0 <= delta < 1, got delta={delta}")


def largest_rejected(rejects: Callable[[float], bool], *, upper: float) -> float:
    """The largest x in [0, upper] that is rejected, from below, where all smaller ones
    are; 0 where none is.
    """
    low, high = 0.0, upper
    if rejects(high):
        return high
    while high - low > 1e-7:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low


def fdp(
    num_units: int, num_guesses: int, num_correct: int, *, delta: float, p: float
) -> float:
    """epsilon(delta) of the largest mu whose Gaussian trade-off curve the guesses
    reject.

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
    return _of_gaussian(largest_rejected(rejects, upper=20.0), delta)


def gdp(auc: float, *, delta: float) -> float:
    """epsilon(delta) of the mu-Gaussian mechanism with this AUC, Phi(mu / sqrt 2); 0
    below 0.5.
    """
    return _of_gaussian(math.sqrt(2) * float(ndtri(min(max(auc, 0.5), 1.0))), delta)


def _of_gaussian(mu: float, delta: float) -> float:
    if mu > 0 and delta <= 0:
        return math.inf
    return gaussian_epsilon(mu, delta)


def clopper_pearson_of_scores(scores: Floats, member: Bools, *, delta: float) -> float:
    """`privacy.audit.epsilon_lower_bound` at a threshold chosen on a random half of the
    records and counted on the other half, because counting on the same half would
    overfit. The records of one run are no independent trials.
    """
    half = generator(0, "clopper_pearson").random(len(scores)) < 0.5
    for side in (half, ~half):
        if member[side].all() or not member[side].any():
            return 0.0
    curve = roc(scores[half], member[half])
    missed = curve.num_members - curve.true_positives
    fnr = betaincinv(missed + 1, curve.true_positives, 1 - _ERROR / 2)
    fpr = betaincinv(
        curve.false_positives + 1,
        curve.num_nonmembers - curve.false_positives,
        1 - _ERROR / 2,
    )
    fnr, fpr = np.nan_to_num(fnr, nan=1.0), np.nan_to_num(fpr, nan=1.0)
    threshold = curve.thresholds[int(np.argmax((1 - fnr - delta) / fpr))]
    called, members = scores[~half] >= threshold, member[~half]
    return epsilon_lower_bound(
        true_positives=int((called & members).sum()),
        positives=int(members.sum()),
        false_positives=int((called & ~members).sum()),
        negatives=int((~members).sum()),
        delta=delta,
        false_alarm=_ERROR,
    )

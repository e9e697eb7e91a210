"""Audit of a step by its releases: the effective noise multiplier, and a lower bound on
epsilon.

The step is run many times on pairs of neighbouring inputs. On both sides of a pair it
draws the same noise, so the mean difference is the shift alone, and the residuals about
each side's mean are the noise alone. A step with Gaussian noise of standard deviation
s_k in group k and shift D_k is no more private than mu = sqrt(sum_k |D_k|^2 / s_k^2); 1
/ mu is its effective noise multiplier. The lower bound on epsilon makes no assumption
about the noise (Jagielski et al. 2020).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, chi2, norm

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class StepAudit:
    """The result of an audit. `claimed`, `estimate`, `interval` are effective noise
    multipliers, in the epoch and on the input with the worst result against the claim.

    `epsilon_lower_bound` and `epsilon_claimed` are of one step at `delta`. `passed` is
    wrong with probability at most `false_alarm` for a step that satisfies its claim. No
    record is read, so all fields are public.
    """

    claimed: float
    estimate: float
    interval: tuple[float, float]
    epsilon_claimed: float
    epsilon_lower_bound: float
    delta: float
    worst_input: str
    epoch: int
    calls: int
    false_alarm: float
    passed: bool


@dataclass(frozen=True, kw_only=True)
class Multiplier:
    """An effective noise multiplier with its confidence interval."""

    estimate: float
    low: float
    high: float


def effective_multiplier(
    left: Floats, right: Floats, *, groups: Sequence[slice], false_alarm: float
) -> Multiplier:
    """The effective noise multiplier of one pair of inputs.

    `left`, `right` [n, D]: the releases of n >= 2 calls on either input, call i of both
    with the same noise; `groups` cut D into parts of equal noise. `math.inf` without
    any shift, 0 without noise. Either end of the interval is wrong with probability at
    most `false_alarm`.
    """
    n = len(left)
    difference = right - left
    shift = difference.mean(axis=0)
    # Where the noise does not cancel, the squared mean is too large by its variance.
    error = difference.var(axis=0, ddof=1) / n
    share = false_alarm / (2 * len(groups))
    tail = norm.isf(share)
    totals = np.zeros(3)  # mu^2: smallest, best, largest
    for group in groups:
        freedom = (n - 1) * (group.stop - group.start)
        residuals = [
            side[:, group] - side[:, group].mean(axis=0) for side in (left, right)
        ]
        # The less noisy side is what an adversary would use; with equal noise they
        # agree.
        squares = min(float(np.square(r).sum()) for r in residuals)
        moved = float(np.square(shift[group]).sum())
        if moved == 0.0:
            continue
        if squares == 0.0:
            return Multiplier(estimate=0.0, low=0.0, high=0.0)
        wobble = float(error[group].sum())
        slack = tail * math.sqrt(
            4 * float((np.square(shift[group]) * error[group]).sum())
        )
        most, least = chi2.isf(share, freedom), chi2.ppf(share, freedom)
        totals += (
            max(0.0, moved - wobble - slack - tail * wobble) * least / squares,
            max(0.0, moved - wobble) * freedom / squares,
            (moved + slack) * most / squares,
        )
    low_mu, mu, high_mu = np.sqrt(totals)
    return Multiplier(
        estimate=_inverse(float(mu)),
        low=_inverse(float(high_mu)),
        high=_inverse(float(low_mu)),
    )


def _inverse(value: float) -> float:
    return math.inf if value == 0.0 else 1.0 / value


def epsilon_lower_bound(
    *,
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    delta: float,
    false_alarm: float,
) -> float:
    """A lower bound of epsilon at `delta` from counts of a test between two inputs:
    ln((1 - FNR - delta) / FPR), with Clopper-Pearson upper bounds of both rates, each
    at error probability `false_alarm` / 2 (Jagielski et al. 2020). It holds with
    probability 1 - `false_alarm`, for independent calls and a test that was fixed
    before them, and is 0 where nothing is proved.

    >>> round(epsilon_lower_bound(true_positives=90, positives=100, false_positives=10,
    ...     negatives=100, delta=0, false_alarm=0.05), 4)
    1.5422
    """
    fnr = _upper(positives - true_positives, positives, false_alarm / 2)
    fpr = _upper(false_positives, negatives, false_alarm / 2)
    if 1 - fnr - delta <= 0:
        return 0.0
    return max(0.0, math.log((1 - fnr - delta) / fpr))


def _upper(successes: int, trials: int, level: float) -> float:
    if successes >= trials:
        return 1.0
    return float(beta.ppf(1 - level, successes + 1, trials - successes))


def distinguish(
    left: Floats,
    right: Floats,
    *,
    groups: Sequence[slice],
    delta: float,
    false_alarm: float,
) -> float:
    """A lower bound of epsilon at `delta`, valid with probability 1 - `false_alarm`,
    from distinguishing the releases `left` and `right` of two neighbouring inputs, [n,
    D] each, calls in rows. The first half of the calls chooses a direction (scaled in
    each of the parameter `groups`) and a threshold, the second half is tested by them,
    so the choice causes no bias.
    """
    half = len(left) // 2
    shift = (right[:half] - left[:half]).mean(axis=0)
    direction = np.zeros_like(shift)
    for group in groups:
        part = left[:half, group]
        variance = float(np.square(part - part.mean(axis=0)).mean())
        direction[group] = shift[group] / (variance if variance > 0 else 1.0)
    scores = [side @ direction for side in (left, right)]
    lows, highs = (np.sort(s[:half]) for s in scores)
    # Thresholds along the line between the two means; the best on the first half is
    # kept.
    best, threshold = -1.0, 0.0
    for candidate in np.linspace(
        lows.mean(), highs.mean() + 3 * (lows.std() + 1e-300), 41
    ):
        found = epsilon_lower_bound(
            true_positives=int((highs > candidate).sum()),
            positives=half,
            false_positives=int((lows > candidate).sum()),
            negatives=half,
            delta=delta,
            false_alarm=false_alarm,
        )
        if found > best:
            best, threshold = found, float(candidate)
    rest = len(left) - half
    return epsilon_lower_bound(
        true_positives=int((scores[1][half:] > threshold).sum()),
        positives=rest,
        false_positives=int((scores[0][half:] > threshold).sum()),
        negatives=rest,
        delta=delta,
        false_alarm=false_alarm,
    )

"""The figures of a membership attack's scores (Carlini et al. 2022: low false positives count).

Convention everywhere: a higher score says "member". The ROC is the step curve of the data, without
interpolation: the true-positive rate at FPR <= a is the largest that a threshold with an empirical
FPR of at most a reaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidInput
from trainables.figures import Figure
from trainables.metrics._auc import Bools, Floats, check
from trainables.metrics._auc import around as around
from trainables.metrics._auc import auc as auc
from trainables.metrics._auc import auc_change as auc_change
from trainables.metrics._auc import log_odds as log_odds

_CONFIDENCE = 0.95
# What `figures` gives of one attack, by its own names.
OF_SCORES = (
    Figure(name="auc", label="AUC", better="lower", written="rate", has_bounds=True),
    *(
        figure
        for name, share in (("tpr_1pct", "1 %"), ("tpr_01pct", "0.1 %"))
        for figure in (
            Figure(
                name=name,
                label=f"TPR at {share} FPR",
                better="lower",
                written="rate",
                has_bounds=True,
            ),
            Figure(
                name=f"{name}_low_resolution",
                label=f"whether few records determine the TPR at {share} FPR",
            ),
        )
    ),
    Figure(name="advantage", label="advantage", better="lower", written="rate"),
    Figure(name="balanced_accuracy", label="balanced accuracy", better="lower", written="rate"),
    Figure(name="num_members", label="members", written="count"),
    Figure(name="num_nonmembers", label="non-members", written="count"),
)
# `auc_change`: against the baseline on the same records.
FIGURES = (
    Figure(
        name="delta_mia_percent",
        label="change of AUC from the baseline's",
        better="lower",
        task="nlu",
        unit="%",
        has_bounds=True,
    ),
    Figure(
        name="delta_mia_significant",
        label="whether the change of AUC leaves 0 out of its 95 % interval",
        task="nlu",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Roc:
    """Corners of the step ROC, from "nobody is a member" to "everybody is".

    At corner k those with score >= `thresholds`[k] are called members: `true_positives`[k] members
    and `false_positives`[k] non-members are. The first threshold is +inf.
    """

    thresholds: Floats
    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]

    @property
    def num_members(self) -> int:
        """Members in all."""
        return int(self.true_positives[-1])

    @property
    def num_nonmembers(self) -> int:
        """Non-members in all."""
        return int(self.false_positives[-1])

    @property
    def tpr(self) -> Floats:
        """True-positive rate at each corner."""
        return np.asarray(self.true_positives / self.num_members)

    @property
    def fpr(self) -> Floats:
        """False-positive rate at each corner."""
        return np.asarray(self.false_positives / self.num_nonmembers)

    @property
    def advantage(self) -> float:
        """max (TPR - FPR), at least 0 (Yeom et al. 2018)."""
        return float((self.tpr - self.fpr).max())


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A true-positive rate, its 95 % interval, and whether the data can resolve its FPR."""

    value: float
    low: float
    high: float
    low_resolution: bool


def roc(scores: Floats, member: Bools) -> Roc:
    """The step ROC; equal scores fall on one side of every threshold together."""
    values, mask = check(scores, member)
    order = np.argsort(-values, kind="stable")
    ordered, labels = values[order], mask[order]
    last = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True])
    true, false = np.cumsum(labels)[last], np.cumsum(~labels)[last]
    return Roc(
        thresholds=np.r_[np.inf, ordered[last]],
        true_positives=np.r_[0, true].astype(np.int64),
        false_positives=np.r_[0, false].astype(np.int64),
    )


def tpr_at_fpr(curve: Roc, max_fpr: float) -> Rate:
    """TPR at FPR <= `max_fpr`, with an interval that accounts for the threshold as well.

    The threshold whose true FPR is `max_fpr` is known only between two order statistics of the
    non-members, at 97.5 %; the exact interval of the share of members above each gives the bounds,
    at 97.5 % again. So they cover at least 95 % for every distribution of scores: the exact
    interval at the empirical threshold alone covers half to three quarters.

    `low_resolution` marks fewer than ten expected false positives: the threshold is then set by a
    handful of records.
    """
    from scipy.special import bdtr  # here, because planning reads this module's figures

    n = curve.num_nonmembers
    hits = _hits(curve, math.floor(max_fpr * n + 1e-9))
    # Non-members above the true threshold are Bin(n, max_fpr).
    tail = (1 - _CONFIDENCE) / 4
    at_most = np.asarray(bdtr(np.arange(n + 1), n, max_fpr))
    fewest = int(np.searchsorted(at_most, tail, side="right")) - 1
    most = int(np.searchsorted(at_most, 1 - tail)) + 1
    beyond = curve.true_positives[curve.false_positives >= most]
    low = 0 if fewest < 0 else _hits(curve, fewest)
    high = int(beyond.min(initial=curve.num_members))
    exact = 1 - 2 * tail
    return Rate(
        value=hits / curve.num_members,
        low=clopper_pearson(low, curve.num_members, confidence=exact)[0],
        high=clopper_pearson(high, curve.num_members, confidence=exact)[1],
        low_resolution=max_fpr * n < 10 - 1e-9,
    )


def _hits(curve: Roc, false_positives: int) -> int:
    """The most members that a threshold with at most so many false positives calls members."""
    return int(curve.true_positives[curve.false_positives <= false_positives].max())


def clopper_pearson(hits: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided interval of a binomial share (Clopper & Pearson 1934).

    >>> clopper_pearson(0, 10)[0], clopper_pearson(10, 10)[1]
    (0.0, 1.0)
    """
    from scipy.special import betaincinv  # here, because planning reads this module's figures

    if not 0 <= hits <= trials or trials < 1:
        raise InvalidInput(f"expected 0 <= hits <= trials and trials >= 1, got {hits} of {trials}")
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - tail))
    return low, high


def figures(scores: Floats, member: Bools) -> dict[str, float]:
    """Every figure of an attack: AUC, TPR at 1 % and 0.1 % FPR with intervals, advantage, balanced
    accuracy, and the numbers of members and non-members.

    `advantage` and `balanced_accuracy` are of the best threshold on these very data. `_low` and
    `_high` bound 95 %; `_low_resolution` is 1 or 0.
    """
    curve, area = roc(scores, member), auc(scores, member)
    result = {"auc": area.value, "auc_low": area.low, "auc_high": area.high}
    for name, max_fpr in (("tpr_1pct", 0.01), ("tpr_01pct", 0.001)):
        rate = tpr_at_fpr(curve, max_fpr)
        result |= {
            name: rate.value,
            f"{name}_low": rate.low,
            f"{name}_high": rate.high,
            f"{name}_low_resolution": float(rate.low_resolution),
        }
    return result | {
        "advantage": curve.advantage,
        "balanced_accuracy": (1 + curve.advantage) / 2,
        "num_members": float(curve.num_members),
        "num_nonmembers": float(curve.num_nonmembers),
    }


def log_curve(curve: Roc, *, num_points: int = 200) -> dict[str, list[float]]:
    """The ROC for log-log axes: `tpr` of the step curve at `fpr` spaced evenly in log.

    From one false positive to all of them; a rate of 0 has no place on such an axis and is left to
    the plot.
    """
    floor = 1 / curve.num_nonmembers
    grid = np.geomspace(floor, 1.0, num_points) if floor < 1 else np.ones(1)
    allowed = np.floor(grid * curve.num_nonmembers + 1e-9)
    corner = np.searchsorted(curve.false_positives, allowed, side="right") - 1
    return {"fpr": grid.tolist(), "tpr": curve.tpr[corner].tolist()}


def dp_inconsistencies(
    scores: Floats,
    member: Bools,
    *,
    epsilon: float,
    delta: float,
) -> tuple[str, ...]:
    """Bounds of (epsilon, delta)-DP that the scores break by more than chance; empty when none.

    Checked: advantage <= (e^eps - 1 + 2 delta) / (e^eps + 1) with a DKW band for the best
    threshold; TPR <= e^eps FPR + delta at 1 % and 0.1 % FPR with exact intervals. The records of
    one run are not independent trials, so this is a plausibility check; only the one-run bound is a
    certificate.
    """
    curve, broken = roc(scores, member), []
    tail = 1 - _CONFIDENCE
    band = sum(
        math.sqrt(math.log(4 / tail) / (2 * n)) for n in (curve.num_members, curve.num_nonmembers)
    )
    factor = math.exp(min(epsilon, 700.0))
    if curve.advantage - band > max_advantage(epsilon, delta):
        broken.append("advantage")
    for name, max_fpr in (("tpr_1pct", 0.01), ("tpr_01pct", 0.001)):
        allowed = math.floor(max_fpr * curve.num_nonmembers + 1e-9)
        # Both at one threshold, which the non-members set.
        fpr_high = clopper_pearson(allowed, curve.num_nonmembers)[1]
        tpr_low = clopper_pearson(_hits(curve, allowed), curve.num_members)[0]
        if tpr_low > factor * fpr_high + delta:
            broken.append(name)
    return tuple(broken)


def max_advantage(epsilon: float, delta: float) -> float:
    """Largest advantage that (epsilon, delta)-DP allows (Humphries et al. 2023).

    >>> round(max_advantage(1.0, 0.0), 6)
    0.462117
    """
    return math.tanh(epsilon / 2) + 2 * delta / (1 + math.exp(min(epsilon, 700.0)))

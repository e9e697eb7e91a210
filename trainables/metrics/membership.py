"""The figures of a membership attack's scores (Carlini et al. 2022: low false positives
count).

Convention everywhere: a higher score says "member". The ROC is the step curve of the
data, without interpolation: the true-positive rate at FPR <= a is the largest that a
threshold with an empirical FPR of at most a reaches.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.dp.accounting.privacy_semantics import max_advantage
from trainables.errors import InvalidInput
from trainables.figures import Figure

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_CONFIDENCE = 0.95
_TAIL = 50.0 * (
    1.0 - _CONFIDENCE
)  # percent of resampled values on either side of an interval
_RATES = {
    "tpr_1pct": 0.01,
    "tpr_01pct": 0.001,
}  # the largest false-positive rate of each TPR
# What `figures` gives of one attack, by its own names.
OF_SCORES = (
    Figure(name="auc", label="AUC", better="lower", written="rate", has_bounds=True),
    *(
        figure
        for name, max_fpr in _RATES.items()
        for figure in (
            Figure(
                name=name,
                label=f"TPR at {100 * max_fpr:g} % FPR",
                better="lower",
                written="rate",
                has_bounds=True,
            ),
            Figure(
                name=f"{name}_low_resolution",
                label=f"whether few records determine the TPR at {100 * max_fpr:g} %"
                f" FPR",
            ),
        )
    ),
    Figure(name="advantage", label="advantage", better="lower", written="rate"),
    Figure(
        name="balanced_accuracy",
        label="balanced accuracy",
        better="lower",
        written="rate",
    ),
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

    At corner k those with score >= `thresholds`[k] are called members:
    `true_positives`[k] members and `false_positives`[k] non-members are. The first
    threshold is +inf.
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
    """A rate with its interval; of a true-positive rate whether the data can resolve
    its FPR.
    """

    value: float
    low: float
    high: float
    low_resolution: bool = False


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
    """TPR at FPR <= `max_fpr`, with an interval that accounts for the threshold as
    well.

    The threshold whose true FPR is `max_fpr` is known only between two order statistics
    of the non-members, at 97.5 %; the exact interval of the share of members above each
    gives the bounds, at 97.5 % again. So they cover at least 95 % for every
    distribution of scores: the exact interval at the empirical threshold alone covers
    half to three quarters.

    `low_resolution` marks fewer than ten expected false positives: the threshold is
    then set by a handful of records.
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
    """The most members that a threshold with at most so many false positives calls
    members.
    """
    return int(curve.true_positives[curve.false_positives <= false_positives].max())


def clopper_pearson(
    hits: int, trials: int, *, confidence: float = _CONFIDENCE
) -> tuple[float, float]:
    """Exact two-sided interval of a binomial share (Clopper & Pearson 1934).

    >>> clopper_pearson(0, 10)[0], clopper_pearson(10, 10)[1]
    (0.0, 1.0)
    """
    from scipy.stats import (
        binomtest,
    )  # here, because planning reads this module's figures

    found = binomtest(hits, trials).proportion_ci(confidence)
    return float(found.low), float(found.high)


def figures(scores: Floats, member: Bools) -> dict[str, float]:
    """Every figure of an attack: AUC, TPR at 1 % and 0.1 % FPR with intervals,
    advantage, balanced accuracy, and the numbers of members and non-members.

    `advantage` and `balanced_accuracy` are of the best threshold on these very data.
    `_low` and `_high` bound 95 %; `_low_resolution` is 1 or 0.
    """
    curve, area = roc(scores, member), auc(scores, member)
    result = {"auc": area.value, "auc_low": area.low, "auc_high": area.high}
    for name, max_fpr in _RATES.items():
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


def dp_inconsistencies(
    scores: Floats, member: Bools, *, epsilon: float, delta: float
) -> tuple[str, ...]:
    """Bounds of (epsilon, delta)-DP that the scores break by more than chance; empty
    when none.

    Checked: advantage <= (e^eps - 1 + 2 delta) / (e^eps + 1) with a DKW band for the
    best threshold; TPR <= e^eps FPR + delta at 1 % and 0.1 % FPR with exact intervals.
    The records of one run are not independent trials, so this is a plausibility check;
    only the one-run bound is a certificate.
    """
    curve, broken = roc(scores, member), []
    tail = 1 - _CONFIDENCE
    band = sum(
        math.sqrt(math.log(4 / tail) / (2 * n))
        for n in (curve.num_members, curve.num_nonmembers)
    )
    factor = math.exp(min(epsilon, 700.0))
    if curve.advantage - band > max_advantage(epsilon, delta):
        broken.append("advantage")
    for name, max_fpr in _RATES.items():
        allowed = math.floor(max_fpr * curve.num_nonmembers + 1e-9)
        # Both at one threshold, which the non-members set.
        fpr_high = clopper_pearson(allowed, curve.num_nonmembers)[1]
        tpr_low = clopper_pearson(_hits(curve, allowed), curve.num_members)[0]
        if tpr_low > factor * fpr_high + delta:
            broken.append(name)
    return tuple(broken)


# ---- the area: DeLong et al. (1988) by midranks (Sun & Xu 2014)


def check(scores: Floats, member: Bools) -> tuple[Floats, Bools]:
    """The arrays as [n] floats and bools, with both classes present.

    Raises: InvalidInput for shapes that differ, a NaN, or only one class.
    """
    values, mask = (
        np.asarray(scores, dtype=np.float64),
        np.asarray(member, dtype=np.bool_),
    )
    if values.ndim != 1 or values.shape != mask.shape:
        raise InvalidInput(
            f"expected scores and member of one shape [n], got {values.shape} and"
            f" {mask.shape}"
        )
    if np.isnan(values).any():
        raise InvalidInput(
            f"expected scores without NaN, got {int(np.isnan(values).sum())}"
        )
    if not mask.any() or mask.all():
        raise InvalidInput(
            f"expected members and non-members, got {int(mask.sum())} members of"
            f" {len(mask)}"
        )
    return values, mask


def placements(scores: Floats, member: Bools) -> tuple[Floats, Floats]:
    """For each member the share of non-members below it, for each non-member the share
    of members above it; ties count half. The mean of either is the AUC.
    """
    from scipy.stats import rankdata  # a second, only where scores are ranked

    values, mask = check(scores, member)
    members, others = values[mask], values[~mask]
    ranks = rankdata(values)
    above = (ranks[mask] - rankdata(members)) / len(others)
    below = 1.0 - (ranks[~mask] - rankdata(others)) / len(members)
    return above, below


def auc(scores: Floats, member: Bools, *, confidence: float = _CONFIDENCE) -> Rate:
    """AUC, below 0.5 where members score lower, with DeLong's interval, normal in the
    log odds: with ten records on a side, or an AUC near 1, one of the AUC itself covers
    0.78 to 0.92 in place of 0.95 (Pepe 2003).

    Where all members score above all non-members (or below), DeLong's variance is 0;
    the far bound then is the one-sided exact one of the smaller class, n**-1 log(p).
    """
    above, below = placements(scores, member)
    value = float(above.mean())
    if min(len(above), len(below)) < 2:
        return Rate(value=value, low=0.0, high=1.0)
    error = math.sqrt(above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below))
    if value in (0.0, 1.0):
        edge = ((1 - confidence) / 2) ** (1 / min(len(above), len(below)))
        low, high = (edge, 1.0) if value else (0.0, 1 - edge)
    else:
        margin = NormalDist().inv_cdf(0.5 + confidence / 2) * error
        low, high = around(value, margin / (value * (1 - value)))
    return Rate(value=value, low=low, high=high)


def log_odds(value: float) -> float:
    """The logarithm of value / (1 - value), for 0 < value < 1."""
    return math.log(value) - math.log1p(-value)


def around(value: float, margin: float) -> tuple[float, float]:
    """`value` less and plus a margin in its log odds.

    >>> [round(bound, 4) for bound in around(0.9, 1.0)], around(0.9, math.inf)
    ([0.768, 0.9607], (0.0, 1.0))
    """
    low, high = (
        0.5 + 0.5 * math.tanh((log_odds(value) + m) / 2) for m in (-margin, margin)
    )
    return min(low, value), max(high, value)


def auc_change(
    trial: tuple[Floats, Bools],
    baseline: tuple[Floats, Bools],
    *,
    samples: int = 1_000,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Delta MIA % between two trials over the same records, with separate scores and
    masks.

    Paired bootstrap: each resample draws records for both trials at once. Keys
    `delta_mia_percent`, `_low`, `_high`, `delta_mia_significant` (1 where the 95 %
    interval leaves 0 out). Resamples that lack a class, or in which both AUCs are 0,
    are left out; where the baseline's alone is 0 the change is infinite. All NaN where
    the baseline's AUC is 0.
    """
    sides = [_Ranked(*check(*trial)), _Ranked(*check(*baseline))]
    n = len(sides[0].order)
    changes = []
    rows = max(1, 2_000_000 // n)  # bounds memory; the result does not depend on it
    for start in range(0, samples, rows):
        size = min(rows, samples - start)
        picks = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        weights = np.bincount(picks.ravel(), minlength=size * n).reshape(size, n)
        areas = [side.weighted_auc(weights) for side in sides]
        changes.append(percent(areas[0], areas[1]))
    drawn = np.concatenate(changes)
    one = np.ones((1, n), dtype=np.int64)
    estimate = float(percent(*(side.weighted_auc(one) for side in sides))[0])
    return of_change("delta_mia", estimate, drawn[~np.isnan(drawn)])


def of_change(name: str, estimate: float, drawn: Floats) -> dict[str, float]:
    """The figures of a change in percent and of its resampled values; NaN for one
    without an end.

    >>> of_change("d", 2.0, np.full(9, 2.0))
    {'d_percent': 2.0, 'd_percent_low': 2.0, 'd_percent_high': 2.0, 'd_significant': 1.0}
    """
    low, high = interval(drawn) if math.isfinite(estimate) else (math.nan, math.nan)
    return {
        f"{name}_percent": estimate if math.isfinite(estimate) else math.nan,
        f"{name}_percent_low": low,
        f"{name}_percent_high": high,
        f"{name}_significant": float(low > 0 or high < 0),
    }


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % percentile interval of resampled values, some of which may be
    infinite.
    """
    # No point lies between a number and infinity.
    method: Literal["linear", "nearest"] = (
        "linear" if np.isfinite(values).all() else "nearest"
    )
    low, high = np.percentile(values, [_TAIL, 100.0 - _TAIL], method=method)
    return float(low), float(high)


def percent(value: Floats, base: Floats) -> Floats:
    """The change from `base`; infinite or NaN where that is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(100.0 * (value - base) / base)


class _Ranked:
    """Scores sorted once, so that the AUC under any weights is two cumulative sums."""

    def __init__(self, scores: Floats, member: Bools) -> None:
        self.order = np.argsort(scores, kind="stable")
        self.member = member[self.order]
        ordered = scores[self.order]
        self.starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])

    def weighted_auc(self, weights: NDArray[np.int64]) -> Floats:
        """AUC under record weights [samples, n]; NaN where a class has no weight."""
        ordered = weights[:, self.order]
        members = np.add.reduceat(ordered * self.member, self.starts, axis=1)
        others = np.add.reduceat(ordered * ~self.member, self.starts, axis=1)
        below = np.cumsum(others, axis=1) - 0.5 * others
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(
                (members * below).sum(axis=1)
                / (members.sum(axis=1) * others.sum(axis=1))
            )

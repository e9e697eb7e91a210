"""Area under the ROC with its error: DeLong et al. (1988) by midranks (Sun & Xu 2014)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidInput

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_TAIL = 50.0 * (1.0 - 0.95)  # percent of resampled values on either side of a 95 % interval


@dataclass(frozen=True, kw_only=True)
class Auc:
    """AUC of a score, unfolded (below 0.5 where members score lower), and a confidence interval."""

    value: float
    standard_error: float
    low: float
    high: float


def check(scores: Floats, member: Bools) -> tuple[Floats, Bools]:
    """The arrays as [n] floats and bools, with both classes present.

    Raises: InvalidInput for shapes that differ, a NaN, or only one class.
    """
    values, mask = np.asarray(scores, dtype=np.float64), np.asarray(member, dtype=np.bool_)
    if values.ndim != 1 or values.shape != mask.shape:
        raise InvalidInput(
            f"expected scores and member of one shape [n], got {values.shape} and {mask.shape}"
        )
    if np.isnan(values).any():
        raise InvalidInput(f"expected scores without NaN, got {int(np.isnan(values).sum())}")
    if not mask.any() or mask.all():
        raise InvalidInput(
            f"expected members and non-members, got {int(mask.sum())} members of {len(mask)}"
        )
    return values, mask


def placements(scores: Floats, member: Bools) -> tuple[Floats, Floats]:
    """For each member the share of non-members below it, for each non-member the share of members
    above it; ties count half. The mean of either is the AUC.
    """
    from scipy.stats import rankdata  # a second, only where scores are ranked

    values, mask = check(scores, member)
    members, others = values[mask], values[~mask]
    ranks = rankdata(values)
    above = (ranks[mask] - rankdata(members)) / len(others)
    below = 1.0 - (ranks[~mask] - rankdata(others)) / len(members)
    return above, below


def auc(scores: Floats, member: Bools, *, confidence: float = 0.95) -> Auc:
    """AUC with DeLong's interval, normal in the log odds: with ten records on a side, or an AUC
    near 1, one of the AUC itself covers 0.78 to 0.92 in place of 0.95 (Pepe 2003).

    Where all members score above all non-members (or below), DeLong's variance is 0; the far bound
    then is the one-sided exact one of the smaller class, n**-1 log(p).
    """
    above, below = placements(scores, member)
    value = float(above.mean())
    if min(len(above), len(below)) < 2:
        return Auc(value=value, standard_error=math.nan, low=0.0, high=1.0)
    variance = above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below)
    error = math.sqrt(variance)
    if value in (0.0, 1.0):
        edge = ((1 - confidence) / 2) ** (1 / min(len(above), len(below)))
        low, high = (edge, 1.0) if value else (0.0, 1 - edge)
    else:
        margin = _normal_quantile(0.5 + confidence / 2) * error
        low, high = around(value, margin / (value * (1 - value)))
    return Auc(value=value, standard_error=error, low=low, high=high)


def log_odds(value: float) -> float:
    """The logarithm of value / (1 - value), for 0 < value < 1."""
    return math.log(value) - math.log1p(-value)


def around(value: float, margin: float) -> tuple[float, float]:
    """`value` less and plus a margin in its log odds.

    >>> [round(bound, 4) for bound in around(0.9, 1.0)], around(0.9, math.inf)
    ([0.768, 0.9607], (0.0, 1.0))
    """
    low, high = (0.5 + 0.5 * math.tanh((log_odds(value) + m) / 2) for m in (-margin, margin))
    return min(low, value), max(high, value)


def auc_change(
    trial: tuple[Floats, Bools],
    baseline: tuple[Floats, Bools],
    *,
    samples: int = 1_000,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Delta MIA % between two trials over the same records, with separate scores and masks.

    Paired bootstrap: each resample draws records for both trials at once. Keys
    `delta_mia_percent`, `_low`, `_high`, `delta_mia_significant` (1 where the 95 % interval leaves
    0 out). Resamples that lack a class, or in which both AUCs are 0, are left out; where the
    baseline's alone is 0 the change is infinite. All NaN where the baseline's AUC is 0.
    """
    sides = [_Ranked(*check(*trial)), _Ranked(*check(*baseline))]
    n = len(sides[0].order)
    if len(sides[1].order) != n:
        raise InvalidInput(
            f"expected both trials on the same records, got {n} and {len(sides[1].order)}"
        )
    changes = []
    rows = max(1, 2_000_000 // n)  # bounds memory; the result does not depend on it
    for start in range(0, samples, rows):
        size = min(rows, samples - start)
        picks = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        weights = np.bincount(picks.ravel(), minlength=size * n).reshape(size, n)
        areas = [side.weighted_auc(weights) for side in sides]
        changes.append(_percent(areas[0], areas[1]))
    drawn = np.concatenate(changes)
    one = np.ones((1, n), dtype=np.int64)
    estimate = float(_percent(*(side.weighted_auc(one) for side in sides))[0])
    if math.isfinite(estimate):
        low, high = interval(drawn[~np.isnan(drawn)])
    else:
        estimate = low = high = math.nan
    return {
        "delta_mia_percent": estimate,
        "delta_mia_percent_low": low,
        "delta_mia_percent_high": high,
        "delta_mia_significant": float(low > 0 or high < 0),
    }


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % percentile interval of resampled values, some of which may be infinite."""
    # No point lies between a number and infinity.
    method: Literal["linear", "nearest"] = "linear" if np.isfinite(values).all() else "nearest"
    low, high = np.percentile(values, [_TAIL, 100.0 - _TAIL], method=method)
    return float(low), float(high)


def _percent(value: Floats, base: Floats) -> Floats:
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
                (members * below).sum(axis=1) / (members.sum(axis=1) * others.sum(axis=1))
            )


def _normal_quantile(probability: float) -> float:
    from scipy.special import ndtri  # here, because planning reads what figures there are

    return float(ndtri(probability))

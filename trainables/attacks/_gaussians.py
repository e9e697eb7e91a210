"""The likelihood ratio of two Gaussians for each record, from sums over reference
models that were trained with and without it.

Shared by LiRA and BaVarIA, which differ in how they estimate the variances.
"""

from typing import Literal

import numpy as np
from scipy.stats import norm, t

from trainables.attacks._references import IN, OUT, Moments
from trainables.attacks._signals import Floats

Variance = Literal["auto", "global", "per_record", "shrunk"]
_MODELS_FOR_OWN_VARIANCE = 64
_MIN_STD = 1e-3  # of standardised psi: a record that all models agree on to rounding
_PRIOR_MODELS = 8.0  # weight of the common variance against a record's own, in models


def ratio(psi: Floats, references: Moments, *, variance: Variance = "auto") -> Floats:
    """The score of values [n] against the sums of reference models.

    A record that no reference has on one side takes the other side's mean, moved by the
    mean distance between the sides: with k models of fair random membership that is a
    share 2**-k of the records.
    """
    if variance == "auto":
        enough = references.num_models >= _MODELS_FOR_OWN_VARIANCE
        variance = "per_record" if enough else "global"
    mean = _filled_means(references)
    if variance == "shrunk":
        return np.asarray(
            _predictive(psi, references, mean, IN)
            - _predictive(psi, references, mean, OUT)
        )
    outside, inside = norm.logpdf(psi, mean, _std(references, variance))
    return np.asarray(inside - outside)


def _filled_means(references: Moments) -> Floats:
    """[2, n] without NaN."""
    mean, seen = references.mean, references.count > 0
    both = seen.all(axis=0)
    if both.any():
        shift = float((mean[IN, both] - mean[OUT, both]).mean())
    else:  # one reference: no record is on both sides of it
        sides = references.total.sum(axis=1) / np.maximum(
            references.count.sum(axis=1), 1
        )
        shift = float(sides[IN] - sides[OUT])
    filled: Floats = np.where(seen, mean, 0.0)
    filled[IN] = np.where(seen[IN], filled[IN], filled[OUT] + shift)
    filled[OUT] = np.where(seen[OUT], filled[OUT], filled[IN] - shift)
    return filled


def _global_variance(references: Moments) -> Floats:
    """[2, 1]: over all records with the side's own mean taken out."""
    freedom = np.maximum(references.count - 1, 0).sum(axis=1)
    scatter = references.scatter.sum(axis=1)
    if not freedom.all():  # too few models to see a side vary: both sides vary alike
        pooled = scatter.sum() / freedom.sum() if freedom.any() else 1.0
        return np.full((2, 1), max(float(pooled), _MIN_STD**2))
    return np.asarray(np.maximum(scatter / freedom, _MIN_STD**2)[:, None])


def _std(references: Moments, variance: Variance) -> Floats:
    """[2, n]."""
    common = np.broadcast_to(_global_variance(references), references.count.shape)
    if variance == "global":
        return np.asarray(np.sqrt(common))
    freedom = references.count - 1
    own = references.scatter / np.maximum(freedom, 1)
    chosen = np.where(freedom >= 1, own, common)
    return np.asarray(np.sqrt(np.maximum(chosen, _MIN_STD**2)))


def _predictive(psi: Floats, references: Moments, mean: Floats, side: int) -> Floats:
    """log Student-t density of the next model's psi on one side, given those seen,
    [n].
    """
    count = references.count[side]
    common = float(_global_variance(references)[side, 0])
    shape = 0.5 * (_PRIOR_MODELS + np.maximum(count - 1, 0))
    rate = 0.5 * (_PRIOR_MODELS * common + references.scatter[side])
    # The variance of the mean is one over the number of models, counted as at least
    # one.
    variance = rate / shape * (1 + 1 / np.maximum(count, 1))
    return np.asarray(t.logpdf(psi, 2 * shape, loc=mean[side], scale=np.sqrt(variance)))

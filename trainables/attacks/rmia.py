"""Relative membership inference: a record's likelihood ratio against those of other
records.

Zarifzadeh, Liu & Shokri 2024. P_x = p_target(x) / p(x), with p(x) the mean likelihood
over models with and without x; the score is the share of population records z with P_x
/ P_z >= 1. Works with a single reference model. Where no reference has seen x, its
likelihood as a member is taken as a p_out + (1 - a). Likelihoods of unlike trials are
brought to one temperature first.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from trainables.attacks._references import (
    IN,
    OUT,
    Moments,
    align,
    leave_one_out,
    likelihoods,
)
from trainables.attacks._signals import Bools, Floats, Signals

NEEDS = frozenset({"references"})

A = 0.3  # fills in for the few records that no reference was trained on, or all were
_SMALLEST = 1e-12


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """Share of the population that each record beats, in [0, 1 + 1/k) for k in it, [n],
    for each trial against all the others, in time linear in trials times records. The
    population is the records that no trial trains on; without any, all records.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    near = align(trials)
    against = leave_one_out(near, likelihoods(near))
    return [
        _scores(p_target, others, population=near[place].population)
        for place, (p_target, others) in enumerate(against)
    ]


def _scores(p_target: Floats, references: Moments, *, population: Bools) -> Floats:
    mean = references.mean
    # No model without x: solve p_in = a p_out + (1 - a) for p_out.
    inverse = np.clip((mean[IN] - (1 - A)) / A, _SMALLEST, 1.0)
    p_out = np.where(np.isnan(mean[OUT]), inverse, mean[OUT])
    ratio = likelihood_ratio(p_target, p_out=p_out, p_in=mean[IN])
    as_outsider = likelihood_ratio(p_target, p_out=p_out)
    ratio_z = as_outsider[population] if population.any() else as_outsider
    # Records between the same two z share a score; P_x orders them, by less than one
    # step.
    step = expit(np.log(np.maximum(ratio, _SMALLEST))) / (2 * len(ratio_z))
    return np.asarray(share_beaten(ratio, ratio_z) + step)


def share_beaten(ratio: Floats, population: Floats) -> Floats:
    """Share of z with P_x / P_z >= 1, for P_x [n] and P_z [k].

    >>> share_beaten(np.array([1.216216, 0.75]), np.array([0.740741, 1.180124])).tolist()
    [1.0, 0.5]
    """
    beaten = np.searchsorted(np.sort(population), ratio, side="right")
    return np.asarray(beaten / len(population))


def likelihood_ratio(
    p_target: Floats, *, p_out: Floats, p_in: Floats | None = None
) -> Floats:
    """P_x = p_target / p(x); p(x) = (p_in + p_out) / 2, p_in estimated from p_out where
    not given.

    >>> ratio = likelihood_ratio(np.array(0.9), p_out=np.array(0.6))
    >>> round(float(ratio), 6)
    1.216216
    """
    guess = A * p_out + (1 - A)
    p_member = guess if p_in is None else np.where(np.isnan(p_in), guess, p_in)
    return np.asarray(p_target / np.maximum((p_member + p_out) / 2, _SMALLEST))

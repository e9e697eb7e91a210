"""Relative likelihoods: a record's likelihood compared with those of records in no model.

The formulas of RMIA (Zarifzadeh, Liu & Shokri 2024), on likelihoods and sums over references.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import expit

from trainables.attacks._references import IN, OUT, Moments
from trainables.attacks._signals import Bools, Floats
from trainables.metrics.membership import auc

Variant = Literal["online", "offline"]
A_DEFAULT = 0.3  # online it fills in for the few records that no reference was trained on
_A_GRID = tuple(i / 10 for i in range(11))
_SMALLEST = 1e-12


def relative_scores(
    p_target: Floats,
    references: Moments,
    *,
    population: Bools,
    gamma: float = 1.0,
    a: float = A_DEFAULT,
    variant: Variant = "online",
) -> Floats:
    """Share of the population that each record beats, in [0, 1 + 1/k) for k in it, [n].

    `population` [n] marks the records z; without any, all records are.
    """
    ratio, ratio_z = ratios(p_target, references, population=population, a=a, variant=variant)
    share = share_beaten(ratio, ratio_z, gamma=gamma)
    # Records between the same two z share a score; P_x orders them, by less than one step.
    step = expit(np.log(np.maximum(ratio, _SMALLEST))) / (2 * len(ratio_z))
    return np.asarray(share + step)


def share_beaten(ratio: Floats, population: Floats, *, gamma: float = 1.0) -> Floats:
    """Share of z with P_x / P_z >= gamma, for P_x [n] and P_z [k].

    >>> p_z = np.array([0.740741, 1.180124])
    >>> [float(share_beaten(np.array([1.216216]), p_z, gamma=g)[0]) for g in (1.0, 1.5)]
    [1.0, 0.5]
    """
    beaten = np.searchsorted(np.sort(population), ratio / gamma, side="right")
    return np.asarray(beaten / len(population))


def likelihood_ratio(
    p_target: Floats, *, p_out: Floats, a: float, p_in: Floats | None = None
) -> Floats:
    """P_x = p_target / p(x); p(x) = (p_in + p_out) / 2, p_in estimated from p_out where not given.

    >>> ratio = likelihood_ratio(np.array(0.9), p_out=np.array(0.6), a=0.3)
    >>> round(float(ratio), 6)
    1.216216
    """
    guess = a * p_out + (1 - a)
    p_member = guess if p_in is None else np.where(np.isnan(p_in), guess, p_in)
    return np.asarray(p_target / np.maximum((p_member + p_out) / 2, _SMALLEST))


def ratios(
    p_target: Floats, references: Moments, *, population: Bools, a: float, variant: Variant
) -> tuple[Floats, Floats]:
    """P_x of all records [n], P_z of the population [k]."""
    mean = references.mean
    # No model without x: solve p_in = a p_out + (1 - a) for p_out.
    inverse = np.clip((mean[IN] - (1 - a)) / max(a, 0.1), _SMALLEST, 1.0)
    p_out = np.where(np.isnan(mean[OUT]), inverse, mean[OUT])
    as_outsider = likelihood_ratio(p_target, p_out=p_out, a=a)
    p_in = mean[IN] if variant == "online" else None
    ratio = likelihood_ratio(p_target, p_out=p_out, a=a, p_in=p_in)
    return ratio, as_outsider[population] if population.any() else as_outsider


def best_a(p_first: Floats, member: Bools, others: Moments, *, population: Bools) -> float:
    """The a with which the other references best separate members of the first reference.

    `p_first` and `member` [n] are that reference's; `others` the sums without it.
    """
    rows = ~population
    if others.num_models == 0 or not 0 < member[rows].sum() < rows.sum():
        return A_DEFAULT
    areas = []
    for a in _A_GRID:
        ratio, _ = ratios(p_first, others, population=population, a=a, variant="offline")
        areas.append(auc(ratio[rows], member[rows]).value)
    return _A_GRID[int(np.argmax(areas))]

"""Relative membership inference: is the record's likelihood ratio above that of other records?

Zarifzadeh, Liu & Shokri 2024. P_x = p_target(x) / p(x), with p(x) the mean likelihood over models
with and without x; the score is the share of population records z with P_x / P_z >= gamma. Works
with a single reference model. Where no reference has seen x, its likelihood as a member is taken
as a p_out + (1 - a).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import expit

from trainables.attacks._knowledge import Knowledge, require
from trainables.attacks._references import IN, OUT, Moments, aligned, moments_of
from trainables.attacks._signals import Floats, Signals
from trainables.errors import InvalidInput
from trainables.metrics.membership import auc

NEEDS = frozenset({"references"})

Variant = Literal["online", "offline"]
_A_GRID = tuple(i / 10 for i in range(11))
_A_DEFAULT = 0.3  # online it fills in for the few records that no reference was trained on
_SMALLEST = 1e-12


def scores(
    target: Signals,
    knowledge: Knowledge,
    *,
    seed: int = 0,
    gamma: float = 1.0,
    a: float | None = None,
    variant: Variant = "online",
) -> Floats:
    """Share of the population that the record beats, in [0, 1 + 1/k) for k in it, [n].

    `a` None, offline: the value of a grid with which the other references attack the first one
    best. The population are the records that no trial trains on; without any, the judged records.

    Raises: InvalidInput without references, or where they lie on other records.
    """
    require("rmia", NEEDS, knowledge)
    references = aligned(target, knowledge.references)
    moments = moments_of(
        [_likelihood(reference) for reference in references],
        [reference.member for reference in references],
        num_records=len(target),
    )
    return _score(target, moments, references[0], gamma=gamma, a=a, variant=variant)


def all_scores(
    trials: Sequence[Signals],
    *,
    gamma: float = 1.0,
    a: float | None = None,
    variant: Variant = "online",
) -> list[Floats]:
    """Scores of every trial against all the others, in time linear in trials times records.

    Raises: InvalidInput where there are fewer than two, or they lie on different records.
    """
    if len(trials) < 2:
        raise InvalidInput(f"expected at least 2 trials for the attack rmia, got {len(trials)}")
    trials = aligned(trials[0], trials)
    values = [_likelihood(trial) for trial in trials]
    members = [trial.member for trial in trials]
    total = moments_of(values, members, num_records=len(trials[0]))
    return [
        _score(
            trials[place],
            total.plus(values[place], members[place], sign=-1),
            trials[0 if place else 1],
            gamma=gamma,
            a=a,
            variant=variant,
        )
        for place in range(len(trials))
    ]


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
    """P_x = p_target / p(x); p(x) = (p_in + p_out) / 2, p_in a guess of p_out where not given.

    >>> ratio = likelihood_ratio(np.array(0.9), p_out=np.array(0.6), a=0.3)
    >>> round(float(ratio), 6)
    1.216216
    """
    guess = a * p_out + (1 - a)
    p_member = guess if p_in is None else np.where(np.isnan(p_in), guess, p_in)
    return np.asarray(p_target / np.maximum((p_member + p_out) / 2, _SMALLEST))


def _likelihood(signals: Signals) -> Floats:
    return np.asarray(np.exp(signals.log_confidence))


def _score(
    target: Signals,
    references: Moments,
    first: Signals,
    *,
    gamma: float,
    a: float | None,
    variant: Variant,
) -> Floats:
    if a is None:
        a = _best_a(first, references) if variant == "offline" else _A_DEFAULT
    ratio, population = _ratios(target, references, a=a, variant=variant)
    share = share_beaten(ratio, population, gamma=gamma)
    # Records between the same two z share a score; P_x orders them, by less than one step.
    step = expit(np.log(np.maximum(ratio, _SMALLEST))) / (2 * len(population))
    return np.asarray(share + step)


def _ratios(
    target: Signals, references: Moments, *, a: float, variant: Variant
) -> tuple[Floats, Floats]:
    """P_x of all records [n], P_z of the population [k]."""
    p_target, mean = _likelihood(target), references.mean
    # No model without x: solve p_in = a p_out + (1 - a) for p_out.
    inverse = np.clip((mean[IN] - (1 - a)) / max(a, 0.1), _SMALLEST, 1.0)
    p_out = np.where(np.isnan(mean[OUT]), inverse, mean[OUT])
    as_outsider = likelihood_ratio(p_target, p_out=p_out, a=a)
    p_in = mean[IN] if variant == "online" else None
    ratio = likelihood_ratio(p_target, p_out=p_out, a=a, p_in=p_in)
    outside = target.population
    return ratio, as_outsider[outside] if outside.any() else as_outsider


def _best_a(first: Signals, references: Moments) -> float:
    """The a with which the other references tell best who is a member of the first."""
    others = references.plus(_likelihood(first), first.member, sign=-1)
    rows = first.judged
    if others.num_models == 0 or not 0 < first.member[rows].sum() < rows.sum():
        return _A_DEFAULT
    areas = []
    for a in _A_GRID:
        ratio, _ = _ratios(first, others, a=a, variant="offline")
        areas.append(auc(ratio[rows], first.member[rows]).value)
    return _A_GRID[int(np.argmax(areas))]

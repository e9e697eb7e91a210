"""Composition of Gaussian mechanisms, exact for shuffled epochs (Balle & Wang 2018; Dong, Roth & Su
2022), an upper bound for Poisson sampling and random allocation.

Shuffled: each record is in one step of an epoch, so an epoch is one Gaussian mechanism and
mu^2 = sum over epochs of 1 / sigma_eff^2. Poisson: the adversary is assumed to know the sampling
coins; tight where noise is small. Random allocation: the adversary is assumed to know the record's
step in each epoch, so the figure is that of shuffling.
"""

from __future__ import annotations

import math

from trainables.accountants._gauss import (
    composed_mu,
    gaussian_epsilon,
    participation_epsilon,
    terms_of,
)
from trainables.accountants._release import Release, release
from trainables.guarantee.mechanism import Mechanism
from trainables.privacy.claim import PROFILE_DELTAS


def epsilon(mechanism: Mechanism, *, delta: float) -> float:
    """Epsilon of all epochs; `math.inf` where anything is unaccounted for."""
    return of_release(release(mechanism), delta=delta)


def is_exact(what: Release) -> bool:
    """Whether the figure is the smallest epsilon: without sampling it is (the rate is then 1)."""
    return what.sample_rate >= 1


def of_release(what: Release, *, delta: float) -> float:
    """Epsilon of a release, under its own neighbouring relation."""
    if not what.is_finite:
        return math.inf
    if what.sampling != "poisson":
        return gaussian_epsilon(composed_mu(what.everything), delta)
    return participation_epsilon(terms_of(what), delta=delta)


def profile(what: Release, *, delta: float) -> list[tuple[float, float]]:
    """Pairs (epsilon, delta) that hold of a release."""
    return [(of_release(what, delta=each), each) for each in PROFILE_DELTAS]

"""Rényi accounting of Gaussian mechanisms, Poisson-sampled or not (Mironov 2017; Mironov, Talwar &
Zhang 2019), by `dp-accounting`, and of random allocation (Feldman & Shenfeld 2025): an upper bound,
usually some percent above the exact figure and far above it where noise is small.
"""

from __future__ import annotations

from trainables.accountants._release import Release, release
from trainables.accountants._renyi import ORDERS, curve, to_epsilon
from trainables.accountants._renyi import of_release as _of_release
from trainables.guarantee.mechanism import Mechanism
from trainables.privacy.claim import PROFILE_DELTAS


def epsilon(mechanism: Mechanism, *, delta: float) -> float:
    """Epsilon of all epochs; `math.inf` where anything is unaccounted for."""
    return of_release(release(mechanism), delta=delta)


def of_release(what: Release, *, delta: float) -> float:
    """Epsilon of a release, under its own neighbouring relation."""
    return _of_release(what, delta=delta, orders=ORDERS)


def profile(what: Release, *, delta: float) -> list[tuple[float, float]]:
    """Pairs (epsilon, delta) that hold of a release that is finite."""
    divergences = curve(what)
    return [(to_epsilon(divergences, delta=each), each) for each in PROFILE_DELTAS]

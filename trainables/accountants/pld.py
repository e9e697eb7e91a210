"""Privacy loss distributions of the Poisson-sampled Gaussian (Koskela et al. 2020; Doroshenko et
al. 2022), by `dp-accounting`: the exact figure, on a grid that always errs upwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.privacy_accountant import NeighboringRelation as Relation

from trainables.accountants._gauss import gaussian_epsilon, participation_epsilon, terms_of
from trainables.accountants._release import Release, release
from trainables.errors import CannotAnalyze
from trainables.guarantee.mechanism import Mechanism
from trainables.privacy.claim import PROFILE_EPSILONS

FINE, MEDIUM, QUICK, COARSE = (
    200_000,
    60_000,
    20_000,
    4_000,
)  # points of the grid up to epsilon, about
FEW_PHASES = 3  # as many distributions as are composed on the finest grid
_FINEST = 1e-8
_DEEP = 100  # phases that are composed by one function in another
_STEP_SHARE = 6  # a single step is divided into this many times fewer points, at most
_MOST_STEP_POINTS = 50_000  # up to the largest loss of one step, where steps are many
_ROUNDING = 1e-15  # of delta for each step: twice the mass that a Fourier transform of 10^6 loses
_MANY, _FEW = 4_096, 64  # steps; so many are composed by way of so few
_SPARSE = 1_000  # points of a step
_LONG = 100_000  # steps, whose distribution takes tenths of a second
DEAR_EPSILON = 1e4  # above it the grid is no better than the bound that it would refine


def epsilon(mechanism: Mechanism, *, delta: float) -> float:
    """Epsilon of all epochs; `math.inf` where anything is unaccounted for.

    Raises: CannotAnalyze as `of_release` does.
    """
    return of_release(release(mechanism), delta=delta)


def is_exact(what: Release) -> bool:
    """Whether the figure is the smallest epsilon, up to the grid's rounding: it is."""
    return True


def of_release(
    what: Release, *, delta: float, points: int = FINE, replace_one: bool = False
) -> float:
    """Epsilon of a Poisson-sampled release under add-or-remove, or under replace-one.

    `points` sets the grid: FINE, MEDIUM, QUICK or COARSE, each an upper bound of the one before.
    Under replace-one both records move the sum by up to the add-or-remove sensitivity.

    Raises: CannotAnalyze for sampling shuffle, and where the noise is so small that only an upper
    bound (gaussian) exists.
    """
    if what.sampling != "poisson":
        other = "gaussian is exact" if what.sampling == "shuffle" else "rdp bounds it"
        raise CannotAnalyze(f"pld: expected sampling poisson, got {what.sampling} ({other})")
    if not what.is_finite:
        return math.inf
    if not what.everything:
        return 0.0
    if is_dear(what, delta=delta):
        raise CannotAnalyze(
            f"pld: expected an epsilon of at most {DEAR_EPSILON:g}, got noise so small that only"
            " the bounds of the accountants gaussian and rdp exist"
        )
    interval, left = _interval(what, delta, points), delta - rounding(what)
    if left <= 0:
        return math.inf
    return least_finite(
        lambda quieter: distribution(what.quieter(quieter), interval, replace_one),
        delta=left,
    )


def profile(what: Release, *, delta: float) -> list[tuple[float, float]]:
    """Pairs (epsilon, delta) that hold of a release of which `of_release` has a figure at `delta`:
    no more is composed than for that figure.
    """
    if not what.everything:
        return []
    whole = distribution(what, _interval(what, delta, points_for(what)), False)
    with np.errstate(over="ignore"):
        deltas = whole.get_delta_for_epsilon(PROFILE_EPSILONS)
    return [
        (epsilon, min(1.0, float(found) + rounding(what)))
        for epsilon, found in zip(PROFILE_EPSILONS, deltas, strict=True)
        if math.isfinite(found)
    ]


def points_for(what: Release) -> int:
    """The number of grid points: fewer the more distributions are composed."""
    return FINE if len(what.phases) <= FEW_PHASES else QUICK


def is_dear(what: Release, *, delta: float) -> bool:
    """Whether the noise is too small for a grid (epsilon above 10^4)."""
    return _bound(what, delta) > DEAR_EPSILON


def is_long(what: Release) -> bool:
    """Whether there are so many steps that a distribution takes tenths of a second."""
    return what.sampling == "poisson" and sum(count for _, count in what.phases) > _LONG


def limit(what: Release, *, delta: float) -> float:
    """Epsilon of the Gaussian mechanism that a long composition tends to: close, but no bound."""
    steps = sum(count for _, count in what.everything)
    return gaussian_epsilon(math.sqrt(steps) * _typical_loss([what]), delta)


def least_finite(distribution_of: Callable[[float], Any], *, delta: float) -> float:
    """Epsilon of `distribution_of(1.0)`, a privacy loss distribution for noise times a factor.

    Where epsilon is near 709, the logarithm of the largest number, the library divides by nearly
    zero and returns infinity. The noise is reduced slightly until epsilon is finite, which gives
    an upper bound.
    """
    for percent in range(100, 80, -1):
        with np.errstate(over="ignore"):
            value = float(distribution_of(percent / 100).get_epsilon_for_delta(delta))
        if math.isfinite(value):
            return value
    return math.inf


def interval_for(bound: float, points: int) -> float:
    """A grid step of 1, 2 or 5 times a power of ten, so that distributions are shared, with about
    `points` steps up to an epsilon of `bound`.
    """
    wanted = max(_FINEST, bound / points)
    power = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
    return max(step * power for step in (1, 2, 5) if step * power <= wanted * (1 + 1e-6))


def distribution(what: Release, interval: float, replace_one: bool) -> Any:
    """The privacy loss distribution of a Poisson-sampled release and what stands beside it."""
    parts = [(what.phases, what.sample_rate), (what.unsampled, 1.0)]
    found = [compose(phases, rate, interval, replace_one) for phases, rate in parts if phases]
    return found[0] if len(found) == 1 else found[0].compose(found[1])


@lru_cache(maxsize=32)
def compose(
    phases: tuple[tuple[float, int], ...], q: float, interval: float, replace_one: bool
) -> Any:
    """The privacy loss distribution of all phases of a Poisson-sampled release, built up phase by
    phase, so that a running total costs one composition an epoch.
    """
    (sigma, count), before = phases[-1], phases[:-1]
    for some in range(_DEEP, len(before), _DEEP):  # Python's stack holds a thousand calls
        compose(before[:some], q, interval, replace_one)
    last = _step(sigma, q, interval, replace_one)
    if count > 1:
        sparse = _largest_loss_of(sigma, q) < _SPARSE * interval
        last = _self_composed(last, count) if sparse else last.self_compose(count)
    return compose(before, q, interval, replace_one).compose(last) if before else last


def _self_composed(step: Any, count: int) -> Any:
    """`count` times the same step of few points. For many steps the library would first raise the
    number of points to that power, a number of millions of digits.
    """
    if count <= _MANY:
        return step.self_compose(count)
    some = step.self_compose(_FEW, tail_mass_truncation=1e-18)
    whole, rest = some.self_compose(count // _FEW), count % _FEW
    return whole.compose(step.self_compose(rest)) if rest else whole


@lru_cache(maxsize=32)
def _step(sigma: float, q: float, interval: float, replace_one: bool) -> Any:
    relation = Relation.REPLACE_ONE if replace_one else Relation.ADD_OR_REMOVE_ONE
    return privacy_loss_distribution.from_gaussian_mechanism(
        sigma,
        sampling_prob=q,
        value_discretization_interval=interval,
        neighboring_relation=relation,
    )


def interval_of(releases: Sequence[Release], bound: float, points: int) -> float:
    """The grid step for releases that are composed, `bound` an upper bound of their epsilon. Of
    many steps that are rare each loss is small beside the whole: a grid that is coarse beside one
    of them rounds up more than they lose.
    """
    largest = max(_largest_loss(what) for what in releases)
    width = max(bound, _STEP_SHARE * largest)
    share = (COARSE / points) ** 0.25  # the finest grid is within a percent
    needed = max(share * _typical_loss(releases), largest / _MOST_STEP_POINTS)
    return interval_for(min(width, points * needed), points)


def _interval(what: Release, delta: float, points: int) -> float:
    return interval_of([what], _bound(what, delta), points)


def _typical_loss(releases: Sequence[Release]) -> float:
    """The root of the mean square of a step's privacy loss, about (its Rényi divergence of order 2
    is log(1 + q^2 (e^(1 / sigma^2) - 1))).

    A grid step of g adds about g times a step's typical loss to its mean square. Over all steps
    that is at most g over this root (Cauchy-Schwarz), as a share of the whole.
    """
    found = [
        (count, 2 * math.log(rate) + 1 / sigma**2)
        if sigma < 0.05  # beyond the range of exp
        else (count, math.log1p(rate * rate * math.expm1(1 / sigma**2)))
        for what in releases
        for phases, rate in ((what.phases, what.sample_rate), (what.unsampled, 1.0))
        for sigma, count in phases
    ]
    total = sum(count for count, _ in found)
    return math.sqrt(max(0.0, sum(count * square for count, square in found) / total))


def rounding(what: Release) -> float:
    """What the sums of the library may lose of delta for a release."""
    return _ROUNDING * sum(count for _, count in what.everything)


def _largest_loss(what: Release) -> float:
    """The privacy loss of one step that is exceeded with probability about e^-50: the width of
    the grid where steps are few.
    """
    parts = ((what.phases, what.sample_rate), (what.unsampled, 1.0))
    return max(
        (_largest_loss_of(sigma, rate) for phases, rate in parts for sigma, _ in phases[-1:]),
        default=0.0,
    )


def _largest_loss_of(sigma: float, rate: float) -> float:
    loss = (0.5 / sigma + 10) / sigma
    # Beyond the range of exp the sample rate is a small correction.
    return loss if loss > 500 else math.log1p(rate * math.expm1(loss))


@lru_cache(maxsize=1_024)
def _bound(what: Release, delta: float) -> float:
    return participation_epsilon(terms_of(what), delta=delta)

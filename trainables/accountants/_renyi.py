"""Rényi divergences of releases (Mironov 2017; Mironov, Talwar & Zhang 2019), by `dp-accounting`;
those of random allocation by `guarantee.allocation`.

They compose by adding vectors: cheap for decaying noise, for whole sweeps and privacy filters.
"""

from __future__ import annotations

import logging
import math
from functools import lru_cache

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS
from numpy.typing import NDArray

from trainables.accountants import _repeat_and_select
from trainables.accountants._release import BestOf, Release
from trainables.guarantee import allocation

# For planning: a fraction of the time, within about a percent. Orders just above 1 are left out
# because their series converges slowly under small noise.
FEW_ORDERS: tuple[float, ...] = (
    *(1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0),
    *(48.0, 64.0),
)
# With those of planning, so that no planned figure is below the exact one.
ORDERS: tuple[float, ...] = tuple(sorted({*map(float, DEFAULT_RDP_ORDERS), *FEW_ORDERS}))
# Of `ORDERS`, computed first: whole numbers cost a fraction of the time, small ones least.
_FIRST = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0)
_ROUNDING = 1e-9  # of a bound, relative


def _is_shown(entry: logging.LogRecord) -> bool:
    """Whether it is no warning of an order whose series does not converge: the library counts such
    an order as infinite, which is sound, and would say so for each order and step.
    """
    return "failed to converge" not in str(entry.msg)


# No level that is set for a while: several threads account at a time.
logging.getLogger("absl").addFilter(_is_shown)


def of_release(what: Release, *, delta: float, orders: tuple[float, ...] = ORDERS) -> float:
    """Epsilon of a release, under its own neighbouring relation.

    Of a sampled Gaussian an order takes milliseconds for each size of noise: those that cannot have
    the smallest epsilon are left out.
    """
    if not what.is_finite:
        return math.inf
    if what.sampling != "poisson" or what.best_of is not None or orders != ORDERS:
        return to_epsilon(curve(what, orders), delta=delta, orders=orders)
    known = curve(what, _FIRST)
    found = to_epsilon(known, delta=delta, orders=_FIRST)
    below = _convex_bound(known, _FIRST, orders)
    rest = tuple(
        order
        for order, bound in zip(orders, below, strict=True)
        if order not in _FIRST
        and to_epsilon(np.array([bound]), delta=delta, orders=(order,)) < found * (1 + _ROUNDING)
    )
    return min(found, to_epsilon(curve(what, rest), delta=delta, orders=rest)) if rest else found


def _convex_bound(
    known: NDArray[np.float64], few: tuple[float, ...], orders: tuple[float, ...]
) -> NDArray[np.float64]:
    """Lower bounds of the divergences at `orders`, in rising order, from those at `few` of them.

    (a - 1) times the divergence at order a is the logarithm of a moment, which is convex in a and 0
    at 1: it lies above the line through two of its points wherever it is not between them.
    """
    at, places = np.array([1.0, *few]), np.array(orders)
    moments = np.append(0.0, (at[1:] - 1) * known)
    bounds = np.zeros(len(orders))
    for one in range(len(few)):
        (left, right), (low, high) = at[one : one + 2], moments[one : one + 2]
        if not left < right or not np.isfinite([low, high]).all():
            continue
        line = low + (high - low) / (right - left) * (places - left)
        outside = (places < left) | (places > right)
        bounds = np.where(outside, np.maximum(bounds, line / (places - 1)), bounds)
    return bounds


def curve(what: Release, orders: tuple[float, ...] = ORDERS) -> NDArray[np.float64]:
    """Rényi divergence of a release at each order, its phases added up; infinite where anything
    is unaccounted for.
    """
    total = np.zeros(len(orders))
    if not what.is_finite:
        return total + np.inf
    if what.best_of is not None:
        return _of_best(what.best_of, orders)
    for sigma, count in what.phases:
        if what.sampling == "random_allocation":
            total = total + count * _epoch(sigma, what.steps_in_epoch, orders)
        else:
            total = total + count * _one(sigma, what.sample_rate, orders)
    for sigma, count in what.unsampled:
        total = total + count * _one(sigma, 1.0, orders)
    return total


def replace_one_divergences(
    divergences: NDArray[np.float64], orders: tuple[float, ...] = ORDERS
) -> NDArray[np.float64]:
    """For one record replaced, from divergences for one record more or less: by way of the data
    set without it (the weak triangle inequality, Mironov 2017, Proposition 11 with p = q = 2).
    Divergences grow with the order: where an order is not among `orders` the next one bounds it;
    beyond the last, infinity.
    """
    known = np.append(divergences, np.inf)

    def at(order: float) -> float:
        return float(known[np.searchsorted(orders, order)])

    return np.array([(a - 0.5) / (a - 1) * at(2 * a) + at(2 * a - 1) for a in orders])


def to_epsilon(
    divergences: NDArray[np.float64], *, delta: float, orders: tuple[float, ...] = ORDERS
) -> float:
    """Epsilon at `delta` from divergences at `orders` (Canonne, Kamath & Steinke 2020)."""
    # Below 0 by rounding, a divergence counts as 0 and not with a warning for each order.
    value, _ = compute_epsilon(orders, np.maximum(divergences, 0.0), delta)
    return float(value)


@lru_cache(maxsize=256)
def _of_best(what: BestOf, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """Divergences of a selection, read-only because they are shared. A trial costs the largest
    divergence of any configuration, order by order.
    """
    worst = np.max(np.stack([curve(each, orders) for each in what.configurations]), axis=0)
    selected = _repeat_and_select.divergences(
        worst, orders=orders, mean=what.mean, shape=what.shape
    )
    shown = sum((curve(each, orders) for each in what.shown), np.zeros(len(orders)))
    divergences: NDArray[np.float64] = np.maximum(selected, shown)
    divergences.setflags(write=False)
    return divergences


@lru_cache(maxsize=16_384)
def _epoch(sigma: float, num_steps: int, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """Divergences of an epoch of random allocation, the larger of both directions."""
    removed, added = allocation.divergences(sigma, num_steps=num_steps, orders=orders)
    divergences: NDArray[np.float64] = np.maximum(removed, added)
    divergences.setflags(write=False)
    return divergences


@lru_cache(maxsize=16_384)
def _one(sigma: float, sample_rate: float, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """Divergences of a single step, read-only because it is shared."""
    gaussian = GaussianDpEvent(sigma)
    event = gaussian if sample_rate >= 1 else PoissonSampledDpEvent(sample_rate, gaussian)
    divergences: NDArray[np.float64] = RdpAccountant(orders).compose(event).rdp
    divergences.setflags(write=False)
    return divergences

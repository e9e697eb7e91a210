"""Rényi divergences of releases (Mironov 2017; Mironov, Talwar & Zhang 2019), by
`dp_accounting`; those of random allocation by `allocation`.

They compose by adding vectors: cheap for decaying noise, for whole sweeps and privacy
filters.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS, compute_delta
from numpy.typing import NDArray
from scipy.optimize import brentq

from trainables.dp.accounting import allocation
from trainables.dp.accounting.releases import (
    Allocated,
    BestOf,
    Number,
    Parts,
    Release,
    Step,
    Unaccounted,
)

Floats = NDArray[np.float64]
Orders = tuple[float, ...]

# For planning: a fraction of the time, within about a percent. Orders just above 1 are
# left out because their series converges slowly under small noise.
FEW_ORDERS: Orders = (
    *(
        1.5,
        1.75,
        2.0,
        2.5,
        3.0,
        3.5,
        4.0,
        5.0,
        6.0,
        7.0,
        8.0,
        10.0,
        12.0,
        16.0,
        20.0,
        24.0,
        32.0,
    ),
    *(48.0, 64.0),
)
# With those of planning, so that no planned figure is below the exact one.
ORDERS: Orders = tuple(sorted({*map(float, DEFAULT_RDP_ORDERS), *FEW_ORDERS}))
# Of `ORDERS`, computed first: whole numbers cost a fraction of the time, small ones
# least.
_FIRST = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0)


def _is_shown(entry: logging.LogRecord) -> bool:
    """Whether it is no warning of an order whose series does not converge: the library
    counts such an order as infinite, which is sound, and would say so for each order
    and step.
    """
    return "failed to converge" not in str(entry.msg)


# No level that is set for a while: several threads account at a time.
logging.getLogger("absl").addFilter(_is_shown)


def epsilon_of(steps: Sequence[Step], *, delta: float) -> float:
    """Epsilon of steps at the best of all orders.

    Of a sampled Gaussian an order takes milliseconds for each size of noise. Epsilon
    falls with the order and rises again, so those next to the best of the first are
    left; any order is a bound.
    """
    known = sum_of(steps, _FIRST)
    each = [
        to_epsilon(known[at : at + 1], delta=delta, orders=_FIRST[at : at + 1])
        for at in range(len(_FIRST))
    ]
    best = int(np.argmin(each))
    low, high = (1.0, *_FIRST)[best], (*_FIRST, math.inf)[best + 1]
    near = tuple(order for order in ORDERS if low < order < high)
    return to_epsilon(sum_of(steps, near), delta=delta, orders=near)


def curve(what: Release, orders: Orders = ORDERS) -> Floats:
    """Rényi divergence of a release at each order under its own relation; infinite
    where no finite epsilon holds.
    """
    if what.reasons or isinstance(what, Unaccounted):
        return np.full(len(orders), np.inf)
    if isinstance(what, BestOf):
        return _of_best(what, orders)
    if isinstance(what, Parts):  # a unit is in one part: order by order the larger
        return np.maximum(curve(what.training, orders), curve(what.held_out, orders))
    return sum_of((*what.steps, *what.beside), orders)


def sum_of(steps: Sequence[Step], orders: Orders = ORDERS) -> Floats:
    """The divergences of all steps, added up."""
    every = (step.count * _one(replace(step, count=1), orders) for step in steps)
    return sum(every, np.zeros(len(orders)))


@lru_cache(maxsize=16_384)
def _one(step: Step, orders: Orders) -> Floats:
    """Divergences of a single step, read-only because it is shared; of an epoch of
    random allocation the larger of both directions.
    """
    if isinstance(step, Allocated):
        removed, added = allocation.divergences(
            step.sigma, num_steps=step.steps, orders=orders
        )
        return read_only(np.maximum(removed, added))
    gaussian = GaussianDpEvent(step.sigma)
    event = gaussian if step.rate >= 1 else PoissonSampledDpEvent(step.rate, gaussian)
    return read_only(RdpAccountant(orders).compose(event).rdp)


def replace_one_divergences(divergences: Floats, orders: Orders = ORDERS) -> Floats:
    """For one record replaced, from divergences for one record more or less: by way of
    the data set without it (the weak triangle inequality, Mironov 2017, Proposition 11
    with p = q = 2). Divergences grow with the order: where an order is not among
    `orders` the next one bounds it; beyond the last, infinity.
    """
    known = np.append(divergences, np.inf)

    def at(order: float) -> float:
        return float(known[np.searchsorted(orders, order)])

    return np.array([(a - 0.5) / (a - 1) * at(2 * a) + at(2 * a - 1) for a in orders])


def to_epsilon(divergences: Floats, *, delta: float, orders: Orders = ORDERS) -> float:
    """Epsilon at `delta` from divergences at `orders` (Canonne, Kamath & Steinke
    2020).
    """
    # Below 0 by rounding, a divergence counts as 0 and not with a warning for each
    # order.
    value, _ = compute_epsilon(orders, np.maximum(divergences, 0.0), delta)
    return float(value)


@lru_cache(maxsize=256)
def _of_best(what: BestOf, orders: Orders) -> Floats:
    """Divergences of a selection, read-only because they are shared. A trial costs the
    largest divergence of any configuration, order by order.
    """
    worst = np.max(
        np.stack([curve(each, orders) for each in what.configurations]), axis=0
    )
    shown = sum((curve(each, orders) for each in what.shown), np.zeros(len(orders)))
    return read_only(np.maximum(best_of(worst, what.number, orders), shown))


def best_of(one_trial: Floats, number: Number, orders: Orders = ORDERS) -> Floats:
    """Divergences of the best of a random `number` of trials, from those of one
    (Papernot & Steinke 2022, Theorem 6 for a Poisson number, Theorem 2 for the others);
    all orders are above 1.
    """
    at, mean = np.array(orders), number.mean
    if number.law == "poisson":
        deltas = [
            compute_delta(orders, one_trial, math.log1p(1 / (a - 1)))[0] for a in orders
        ]
        return one_trial + mean * np.array(deltas) + math.log(mean) / (at - 1)
    shape, stop = 1, 1 / mean
    if number.law == "logarithmic":
        shape, stop = 0, halting(mean)
    common = (1 + shape) * np.min((1 - 1 / at) * one_trial - math.log(stop) / at)
    found = one_trial + math.log(mean) / (at - 1) + common
    # Divergences grow with the order.
    return np.asarray(np.minimum.accumulate(found[::-1])[::-1])


def halting(mean: float) -> float:
    """The chance gamma with which a logarithmic number of this mean ends, rounded down:
    mean = (1 / gamma - 1) / ln(1 / gamma).
    """

    def excess(log_stop: float) -> float:
        return float(np.expm1(-log_stop)) / -log_stop - mean

    if mean == 1:
        return 1.0
    return math.exp(brentq(excess, -2 - 2 * math.log(mean), -1e-12)) * (1 - 1e-9)


def read_only(shared: NDArray[Any]) -> NDArray[Any]:
    """What several callers are given."""
    shared.setflags(write=False)
    return shared

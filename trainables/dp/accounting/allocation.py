"""Rényi divergences of random allocation: a record is in exactly one of t Gaussian
steps, each equally likely (Feldman & Shenfeld 2025, "Privacy amplification by random
allocation").

An epoch is dominated, also where later steps depend on earlier ones, by the pair P and
Q on R^t: Q is N(0, sigma^2 I) (without the record) and P the mean of N(e_i, sigma^2 I)
over i. Their ratio is S = (Y_1 + ... + Y_t) / t with independent lognormal Y_i, E[Y^p]
= exp(p (p - 1) / (2 sigma^2)).

- Removing the record: (alpha - 1) D_alpha(P | Q) = log E[S^alpha]. At whole orders by
  powers of the generating function (the sum over partitions of the paper), below 2 by
  the Laplace transform of S. Elsewhere it is convex in the order, so that a chord
  bounds it.
- Adding it: (alpha - 1) D_alpha(Q | P) = log E[S^-(alpha - 1)], by the Laplace
  transform, which is that of Y_1 / t to the power t. The paper bounds it by (alpha + t
  - 1) / (2 t sigma^2).

Neither exceeds alpha / (2 sigma^2), the divergence when the adversary knows the step.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, ndtr

Floats = NDArray[np.float64]

_LARGEST_ORDER = 256  # above it the bound without sampling is taken
_LEAST_NOISE = 0.15  # below it too: one step's loss is above that of choosing among t
_WIDTH = 0.04  # of the integrals' steps, in log u
_LEAST_DIFFERENCE = 1e-8  # of 1 and E[S exp(-u S)]: smaller ones lose too many digits
_ROUNDING = 1e-8  # more than what is lost of the others, relative to an integral
_LOWEST, _HIGHEST = -30.0, 10.0  # of a standard normal variable
_NARROWEST = (
    0.25  # step of a standard normal variable that no figure can tell from a finer one
)


def divergences(
    sigma: float, *, num_steps: int, orders: tuple[float, ...]
) -> tuple[Floats, Floats]:
    """Rényi divergence of an epoch at each order: for a record removed, and for one
    added.

    `sigma` is the noise over the sensitivity to one record more or less.
    """
    at = np.asarray(orders, dtype=np.float64)
    unsampled = at / (2 * sigma * sigma)
    if num_steps == 1 or sigma < _LEAST_NOISE:
        return unsampled, unsampled
    rounding = 1e-12 + 1e-14 * num_steps  # more than what the sums lose of a logarithm
    found = []
    for log_moment in (
        log_moments(sigma, num_steps, at),
        log_inverse(sigma, num_steps, at - 1),
    ):
        bound = (np.maximum(log_moment, 0.0) + rounding) / (at - 1)
        found.append(
            np.where(at <= _LARGEST_ORDER, np.minimum(bound, unsampled), unsampled)
        )
    return found[0], found[1]


def log_moments(sigma: float, num_steps: int, orders: Floats) -> Floats:
    """log E[S^order] for orders above 1: exact at whole orders and below 2, else from
    above.
    """
    largest = max(2, math.ceil(min(float(orders.max()), _LARGEST_ORDER)))
    powers = np.arange(largest + 1)
    factorials = gammaln(powers + 1)
    # The sum over p of E[Y^p] x^p / p!, to the power t, has E[(t S)^p] / p! before x^p.
    power = _series_power(
        powers * (powers - 1) / (2 * sigma * sigma) - factorials, num_steps
    )
    exact = power + factorials - powers * math.log(num_steps)
    found = np.interp(orders, powers, exact)
    below = orders < 2
    if below.any():
        found[below] = np.minimum(
            found[below],
            _log_fractional(sigma, num_steps, orders[below] - 1, second=exact[2]),
        )
    return np.asarray(found)


def log_inverse(sigma: float, num_steps: int, exponents: Floats) -> Floats:
    """log E[S^-s] for each s > 0 in `exponents`: the integral over u of
    u^(s-1) E[exp(-u S)] / Gamma(s), by the trapezoidal rule in log u.

    The integrand is analytic, so the rule's error falls exponentially with the step,
    which is several times finer than the integrand is wide.
    """
    log_u = _log_grid(sigma, start=-30.0)
    log_transform = num_steps * _log_transform(sigma, log_u - math.log(num_steps))
    terms = exponents[:, None] * log_u + log_transform
    # Before the grid the transform is 1 but for its first u.
    before = exponents * (log_u[0] - _WIDTH) - np.log(-np.expm1(-exponents * _WIDTH))
    found = np.logaddexp(logsumexp(terms, axis=-1), before) + math.log(_WIDTH)
    # Where the integrand has not vanished at the grid's end, there is no figure.
    vanished = terms[:, -1] < terms.max(axis=1) - 40
    return np.where(vanished, found - gammaln(exponents), np.inf)


def _log_fractional(
    sigma: float, num_steps: int, exponents: Floats, *, second: float
) -> Floats:
    """log E[S^(1 + s)] for each 0 < s < 1 in `exponents`: the integral over u of s
    u^(-1-s) (1 - E[S exp(-u S)]) / Gamma(1 - s), as `log_inverse`. `second` is log
    E[S^2].
    """
    log_u = _log_grid(sigma, start=math.log(_LEAST_DIFFERENCE) - second)
    log_v = log_u - math.log(num_steps)
    # E[Y f(Y)] = E[f(Y exp(1 / sigma^2))].
    tilted = _log_transform(sigma, log_v + 1 / sigma**2)
    rest = -np.expm1(tilted + (num_steps - 1) * _log_transform(sigma, log_v))
    inside = np.exp(-exponents[:, None] * log_u) @ rest
    # 1 - E[S exp(-u S)] is at most u E[S^2] before the grid, and at most 1 behind it.
    down, up = np.exp(-(1 - exponents) * _WIDTH), np.exp(-exponents * _WIDTH)
    before = np.exp(second + (1 - exponents) * log_u[0]) * down / (1 - down)
    behind = np.exp(-exponents * log_u[-1]) * up / (1 - up)
    whole = (inside + before + behind) * _WIDTH * (1 + _ROUNDING)
    return np.asarray(np.log(whole) + np.log(exponents) - gammaln(1 - exponents))


def _series_power(log_series: Floats, exponent: int) -> Floats:
    """Logarithms of the coefficients of a power of a series of positive
    coefficients.
    """
    if exponent == 1:
        return log_series
    half = _series_power(log_series, exponent // 2)
    square = _log_product(half, half)
    return _log_product(square, log_series) if exponent % 2 else square


def _log_product(left: Floats, right: Floats) -> Floats:
    """Logarithms of the first coefficients of a product of two series, as many as they
    have.
    """
    places = np.arange(len(left))
    other = places[:, None] - places
    terms = np.where(other >= 0, left + right[other], -np.inf)
    return np.asarray(logsumexp(terms, axis=-1))


def _log_grid(sigma: float, *, start: float) -> Floats:
    """log u from `start` to where E[exp(-u S)] has vanished."""
    return np.arange(start, 12 + 12 / sigma + 0.5 / sigma**2, _WIDTH)


def _log_transform(sigma: float, log_v: Floats) -> Floats:
    """log E[exp(-v Y)] for one lognormal Y, by the trapezoidal rule: its step is fine
    beside the width sigma of the integrand's edge. What lies below the grid counts as
    exp(0), from above, and what lies above it as exp(-inf).
    """
    step = min(_NARROWEST, sigma / 5)
    z = np.arange(_LOWEST, _HIGHEST, step)
    weights = np.exp(-z * z / 2) * (step / math.sqrt(2 * math.pi))
    with np.errstate(over="ignore"):
        exponents = -np.exp(z / sigma - 0.5 / sigma**2 + log_v[:, None])
    left = np.exp(exponents) @ weights + ndtr(_LOWEST)
    # Near 1 the difference from it has all of its digits: many steps multiply what it
    # lacks.
    lost = -np.expm1(exponents) @ weights + ndtr(-_HIGHEST)
    return np.asarray(
        np.where(lost < 0.5, np.log1p(-np.minimum(lost, 0.5)), np.log(left))
    )

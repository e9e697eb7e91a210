"""Privacy loss distributions of Gaussian steps, Poisson-sampled or on all records
(Koskela et al. 2020; Doroshenko et al. 2022), on a grid that always errs upwards. How
fine the grid is costs tightness alone.

These are the fast forms that plan and search; they stay at or above the figures of
`dp_accounting` on the same grid, which are the last word (`library`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from numpy.typing import NDArray
from scipy import fft, signal

from trainables.dp.accounting.gaussian import is_exact, without_amplification
from trainables.dp.accounting.releases import (
    Allocated,
    Sampled,
    Step,
    with_noise_scaled,
)

Floats = NDArray[np.float64]

FINE, MEDIUM, QUICK, COARSE = (
    200_000,
    60_000,
    20_000,
    4_000,
)  # points up to epsilon, about
_FINEST = 1e-8
_STEP_SHARE = 6  # a single step is divided into this many times fewer points, at most
_MOST_STEP_POINTS = 50_000  # up to the largest loss of one step, where steps are many
# of delta for each step: twice the mass that a Fourier transform of 10^6 loses
_ROUNDING = 1e-15
_OWN_ROUNDING = (
    1.5  # times that here: the sums of the library differ by less than the half
)
_TAILS = 1e-15  # of the mass of a composition, which count as an infinite loss
DEAR_EPSILON = 1e4  # above it the grid is no better than the bound that it would refine


def unsupported_reason(
    steps: tuple[Step, ...], *, delta: float, replace_one: bool
) -> str:
    """Why there is no figure; empty where there is one."""
    if replace_one and is_exact(steps):
        return "pld: expected sampling poisson, got shuffle (gaussian is exact)"
    if any(isinstance(step, Allocated) for step in steps):
        return "pld: expected sampling poisson, got random_allocation (rdp bounds it)"
    if (
        without_amplification(
            steps if not replace_one else for_replace_one(steps), delta=delta
        )
        > DEAR_EPSILON
    ):
        return (
            f"pld: expected an epsilon of at most {DEAR_EPSILON:g}, got noise so small"
            " that only the bounds of the accountants gaussian and rdp exist"
        )
    return ""


@dataclass(frozen=True, eq=False)
class Losses:
    """The privacy losses of one direction (a record removed, added or replaced):
    `masses` float64[n] at the losses (`lowest` + i) * `grid`, and the mass `infinite`
    of an infinite loss.
    """

    grid: float
    lowest: int
    masses: Floats
    infinite: float


# Of both directions, or of one where they are alike.
Distribution = tuple[Losses, ...]


def epsilon_of(
    steps: tuple[Step, ...], *, delta: float, points: int, replace_one: bool = False
) -> float:
    """Epsilon of steps, some of which there are. `points` sets the grid: FINE, MEDIUM,
    QUICK or COARSE, each an upper bound of the one before.

    `replace_one`: a replaced record moves the sum of a sampled step twice. What is on
    all records states its sigma for the relation that is asked for.
    """
    grid = interval(steps, delta=delta, points=points)
    left = delta - _OWN_ROUNDING * rounding(steps)
    if left <= 0:
        return math.inf
    return epsilon_at(distribution(steps, grid, replace_one), delta=left)


def epsilon_at(whole: Distribution, *, delta: float) -> float:
    """The least epsilon >= 0 at which a distribution has at most `delta`.

    Of losses l_j and masses p_j, delta(epsilon) = p_infinite + sum over l_j > epsilon
    of (1 - e^(epsilon - l_j)) p_j (Koskela et al. 2020).
    """
    worst = 0.0
    for losses in whole:
        if losses.infinite > delta:
            return math.inf
        masses = losses.masses[::-1]
        # From each loss upwards: of the masses, and of those times e^(this loss - their
        # own).
        above = losses.infinite + np.cumsum(masses)
        scaled = signal.lfilter([1.0], [1.0, -math.exp(-losses.grid)], masses)
        at = (
            np.count_nonzero(above - scaled <= delta) - 1
        )  # the least loss from epsilon upwards
        if above[at] > delta:
            loss = (losses.lowest + len(masses) - 1 - at) * losses.grid
            ratio = (above[at] - delta) / scaled[at]
            worst = max(worst, float(loss + math.log(ratio)))
    return worst


def profile(
    steps: tuple[Step, ...], *, grid: float, epsilons: tuple[float, ...]
) -> list[tuple[float, float]]:
    """Pairs (epsilon, delta) that hold of steps under their own relation, as
    `library.profile`, in milliseconds.
    """
    lost = _OWN_ROUNDING * rounding(steps)
    whole = distribution(steps, grid, False)
    return [
        (at, min(1.0, max(_delta_at(losses, at) for losses in whole) + lost))
        for at in epsilons
    ]


def _delta_at(losses: Losses, epsilon: float) -> float:
    """delta(epsilon), as in `epsilon_at`."""
    at = (losses.lowest + np.arange(len(losses.masses))) * losses.grid
    return losses.infinite - float(
        np.expm1(np.minimum(epsilon - at, 0)) @ losses.masses
    )


def rounding(steps: tuple[Step, ...]) -> float:
    """What the sums of a composition may lose of delta."""
    return _ROUNDING * sum(step.count for step in steps)


@lru_cache(maxsize=32)
def distribution(
    steps: tuple[Step, ...], grid: float, replace_one: bool
) -> Distribution:
    """The privacy loss distribution of all steps, built up one kind after another, so
    that a running total costs one composition an epoch.
    """
    last, before = steps[-1], steps[:-1]
    one = _step(last.sigma, last.rate, grid, replace_one and isinstance(last, Sampled))
    if last.count > 1:
        one = tuple(_self_composed(losses, last.count) for losses in one)
    if not before:
        return one
    so_far = distribution(before, grid, replace_one)
    ways = range(max(len(so_far), len(one)))
    return tuple(
        _composed(so_far[way % len(so_far)], one[way % len(one)]) for way in ways
    )


def _composed(first: Losses, second: Losses) -> Losses:
    """The sum of both losses, without tails: the upper one counts as infinite, the
    lower one as the lowest loss that is left.
    """
    masses = signal.fftconvolve(first.masses, second.masses)
    low = int(np.argmax(np.cumsum(masses) > _TAILS / 2))
    high = len(masses) - int(np.argmax(np.cumsum(masses[::-1]) > _TAILS / 2))
    kept = masses[low:high].copy()
    kept[0] += masses[:low].sum()
    infinite = first.infinite + second.infinite - first.infinite * second.infinite
    infinite += float(masses[high:].sum())
    return Losses(first.grid, first.lowest + second.lowest + low, kept, infinite)


def _self_composed(one: Losses, count: int) -> Losses:
    """The sum of `count` such losses, between Chernoff's bounds on both ends."""
    masses, size, ends = one.masses, len(one.masses), []
    for sign in (-1, 1):
        tilt, tilted, least = np.exp(sign / size * np.arange(size)), masses, math.inf
        for order in range(1, 21):
            tilted = tilted * tilt
            log = count * math.log(tilted.sum()) - math.log(_TAILS / 2)
            least = min(least, log * size / order)
        ends.append(sign * least)
    low, high = max(0, math.floor(ends[0])), min(count * (size - 1), math.ceil(ends[1]))
    length = fft.next_fast_len(max(size, high - low + 1))
    sums = np.roll(fft.irfft(fft.rfft(masses, length) ** count, length), -low)
    infinite = _TAILS - math.expm1(count * math.log1p(-one.infinite))
    return Losses(one.grid, count * one.lowest + low, sums[: high - low + 1], infinite)


@lru_cache(maxsize=32)
def _step(sigma: float, rate: float, grid: float, replace_one: bool) -> Distribution:
    """One step, by "connect the dots" (Doroshenko et al. 2022, Algorithm 1): the
    distribution on the grid whose delta is the mechanism's at each point of it, and
    above between them.
    """
    found = []
    ways = (AdjacencyType.REMOVE, AdjacencyType.ADD)[: 1 + (rate < 1)]
    for way in (AdjacencyType.REPLACE,) if replace_one else ways:
        loss = GaussianPrivacyLoss(sigma, sampling_prob=rate, adjacency_type=way)
        ends = loss.connect_dots_bounds()
        least, most = (
            math.floor(ends.epsilon_lower / grid),
            math.ceil(ends.epsilon_upper / grid),
        )
        deltas = _deltas(loss, np.arange(least, most + 1) * grid)
        deltas = np.maximum.accumulate(deltas[::-1])[
            ::-1
        ]  # they fall, but for rounding errors
        falls = np.append(np.diff(deltas), 0.0) / math.expm1(grid)
        masses = falls - math.exp(grid) * np.append(0.0, falls[:-1])
        masses[0] += 1 - deltas[0]
        found.append(Losses(grid, least, np.maximum(masses, 0.0), float(deltas[-1])))
    return tuple(found)


def _deltas(loss: GaussianPrivacyLoss, epsilons: Floats) -> Floats:
    """`loss.get_delta_for_epsilon` of all points at once: x is where the loss is
    epsilon.
    """
    rate, variance = loss.sampling_prob, loss.standard_deviation**2
    with np.errstate(divide="ignore"):  # the logarithm of 0
        if loss.adjacency_type == AdjacencyType.REPLACE:
            size = abs(epsilons)
            log = (
                (1 / variance + size) / 2
                + np.log1p(-rate)
                - np.log(2 * rate / -np.expm1(-size))
            )
            arsinh = np.sign(epsilons) * np.logaddexp(np.logaddexp(0, 2 * log) / 2, log)
            x = -variance * (arsinh + epsilons / 2)
        else:
            sign = 1 if loss.adjacency_type == AdjacencyType.REMOVE else -1
            near = np.minimum(sign * epsilons, 500.0)  # within the range of exp
            log = np.log1p(np.maximum(np.expm1(near) / rate, -1))
            x = -sign * (0.5 + variance * (log + sign * epsilons - near))
    deltas: Floats = loss.mu_upper_cdf(x) - np.exp(epsilons + loss.mu_lower_log_cdf(x))
    return np.clip(deltas, 0, 1)


def for_replace_one(
    steps: tuple[Step, ...], *, kinds: Any = (Sampled, Allocated)
) -> tuple[Step, ...]:
    """Steps of these kinds where the sum moves twice as far; the others as they are."""
    return tuple(
        with_noise_scaled((step,), 0.5)[0] if isinstance(step, kinds) else step
        for step in steps
    )


def interval(steps: tuple[Step, ...], *, delta: float, points: int) -> float:
    """The grid's step: 1, 2 or 5 times a power of ten, so that distributions are
    shared.

    Of many steps that are rare each loss is small beside the whole: a grid that is
    coarse beside one of them rounds up more than they lose.
    """
    largest = max(_largest_loss(step) for step in steps)
    width = max(without_amplification(steps, delta=delta), _STEP_SHARE * largest)
    share = (COARSE / points) ** 0.25  # the finest grid is within a percent
    needed = max(share * typical_loss(steps), largest / _MOST_STEP_POINTS)
    return _round_down(min(width, points * needed) / points)


def _round_down(wanted: float) -> float:
    wanted = max(_FINEST, wanted)
    power = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
    return max(
        step * power for step in (1, 2, 5) if step * power <= wanted * (1 + 1e-6)
    )


def typical_loss(steps: tuple[Step, ...]) -> float:
    """The root of the mean square of a step's privacy loss, about (its Rényi divergence
    of order 2 is log(1 + q^2 (e^(1 / sigma^2) - 1))).

    A grid step of g adds about g times a step's typical loss to its mean square. Over
    all steps that is at most g over this root (Cauchy-Schwarz), as a share of the
    whole.
    """
    total, squares = 0, 0.0
    for step in steps:
        total, rate, weight = total + step.count, step.rate, 1 / step.sigma**2
        beyond = step.sigma < 0.05  # the range of exp
        loss = (
            2 * math.log(rate) + weight
            if beyond
            else math.log1p(rate**2 * math.expm1(weight))
        )
        squares += step.count * loss
    return math.sqrt(max(0.0, squares / total))


def _largest_loss(step: Step) -> float:
    """The privacy loss of one step that is exceeded with probability about e^-50: the
    width of the grid where steps are few.
    """
    loss = (0.5 / step.sigma + 10) / step.sigma
    # Beyond the range of exp the sample rate is a small correction.
    return loss if loss > 500 else math.log1p(step.rate * math.expm1(loss))

"""From a target to the smallest noise multiplier that meets it, rounded up."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from scipy.optimize import brentq, newton

from trainables.dp.accounting import pld
from trainables.dp.accounting.certification import (
    OWN,
    Effort,
    certify,
    is_long,
    pairs_of,
)
from trainables.dp.accounting.choose import certify_by
from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.accounting.privacy_semantics import (
    largest_advantage,
    largest_tpr,
    nearest_gaussian_mu,
)
from trainables.dp.accounting.releases import Training, of_training
from trainables.dp.accounting.rounding import format_epsilon
from trainables.dp.engines.configs import LEAST_TARGET_EPSILON, Target
from trainables.dp.mechanism import Mechanism
from trainables.errors import CannotAnalyze, InvalidInput

_DIGITS = 5  # significant digits of a noise multiplier
_LEAST, _MOST = 1e-12, 1e12
_LEAST_SHARE = 0.99  # of the target that the noise found costs
_NEARLY_ALL = 0.999  # of it that 5 digits of noise leave
_LEAST_DELTA = 1e-12  # of a pair that held-out noise is fitted to
# Of the squared mu that training allows, for evaluations; what is left is for models
# that are not trained, each of which takes 1 / UNTRAINED_NOISE squared.
_HELD_OUT_SHARE = 0.95
UNTRAINED_NOISE = 20.0


@lru_cache(maxsize=1_024)
def held_out_noise(mechanism: Mechanism) -> float:
    """The noise of an evaluation over its sensitivity with which validation and test
    records cost at most what the training records cost, at every pair (epsilon, delta)
    that is known to hold of these; 0 for a mechanism that covers them alone.

    All evaluations of a trial together are a Gaussian mechanism whose mu is a little
    less than the largest that each pair allows, so that models that are not trained,
    whose few figures have much noise, raise no total.

    Raises: InvalidInput where training has no finite epsilon, so that nothing would be
        covered.
    """
    if not mechanism.split:
        return 0.0
    if not mechanism.trains:
        return UNTRAINED_NOISE
    # What was read without noise, and a public key, make epsilon infinite whatever the
    # noise is; the trial runs with the noise that it would have without them.
    nominal = replace(mechanism, undeclared=(), reproducible_noise=False, starts=())
    what = of_training(nominal)
    found = certify(what, delta=nominal.delta, effort="running")
    if math.isinf(found.epsilon):
        raise InvalidInput(
            "expected a finite epsilon with privacy.covers=all, got none:"
            f" {'; '.join(found.unaccounted)}"
        )
    pairs = pairs_of(what, found, effort="running")
    mu = min(
        nearest_gaussian_mu(epsilon, delta=delta)
        for epsilon, delta in pairs
        if _LEAST_DELTA < delta < 1
    )
    return _round_up(math.sqrt(mechanism.epochs / _HELD_OUT_SHARE) / mu)


def noise_for(
    mechanism: Mechanism,
    *,
    target_epsilon: float,
    accountant: str | None = None,
    certified: bool = True,
) -> float:
    """The smallest noise multiplier, rounded up; that of the given mechanism is
    ignored.

    The search uses the fast forms. The answer is `certified` to meet the target at the
    effort "exact", where `dp_accounting` decides, up to a second or two; a plan goes
    without, because the fast forms are at or above.

    Raises: InvalidInput for a target below 1e-6, or that no noise reaches.
    """
    if not LEAST_TARGET_EPSILON <= target_epsilon < math.inf:
        raise InvalidInput(
            f"expected {LEAST_TARGET_EPSILON:g} <= target_epsilon < inf, got"
            f" {target_epsilon:g}"
        )
    unit = replace(mechanism, noise_multiplier=1.0)
    if unit.unaccounted:
        raise InvalidInput(
            f"no noise multiplier reaches target_epsilon={target_epsilon:g}:"
            f" {'; '.join(unit.unaccounted)}"
        )
    what = of_training(unit)
    assert isinstance(what, Training)  # nothing is unaccounted for
    try:
        if what.beside:  # a noised histogram, which the noise multiplier does not scale
            alone = _figure(
                replace(what, steps=()), delta=unit.delta, accountant=accountant
            )
            if alone >= target_epsilon:
                raise InvalidInput(
                    f"no noise multiplier reaches target_epsilon={target_epsilon:g}:"
                    f" the noised histogram alone costs {format_epsilon(alone)}, before"
                    f" the {unit.steps} steps"
                )
        z = _calibrate(what, unit.delta, target_epsilon, accountant)
        while (
            certified
            and accountant is None
            and _costs_more(what, z, unit.delta, target_epsilon)
        ):
            z = _next(z)
        return z
    except CannotAnalyze as refusal:
        raise InvalidInput(
            f"no noise multiplier for target_epsilon={target_epsilon:g}: {refusal}"
        ) from None


@lru_cache(maxsize=256)
def noise_for_risk(
    mechanism: Mechanism,
    target: Target,
    *,
    accountant: str | None = None,
    certified: bool = True,
) -> float:
    """As `noise_for`, for a target of what all pairs (epsilon, delta) together allow an
    attacker: less noise than for the epsilon whose single pair allows as much.

    Raises: InvalidInput for a target that no noise reaches, and an accountant whose
        pairs are not known.
    """
    (name, limit), *_ = target.model_dump().items()
    fpr = 0.0 if target.target_tpr is None else target.at_fpr
    unit = replace(mechanism, noise_multiplier=1.0)
    what = of_training(unit)
    if accountant not in (None, *OWN):
        raise InvalidInput(
            f"expected privacy.accountant {' or '.join(OWN)}, or none, with {name},"
            f" got {accountant}"
        )

    def gained(z: float, effort: Effort = "running") -> float:
        """The largest true-positive rate beyond the false-positive rate."""
        scaled = what.scale_noise(z)
        found = certify(scaled, delta=unit.delta, effort=effort, only=accountant)
        pairs = pairs_of(scaled, found, effort=effort, fprs=(fpr,) if fpr else ())
        return largest_tpr(pairs, fpr=fpr) - fpr if fpr else largest_advantage(pairs)

    room = limit - fpr
    if unit.unaccounted or gained(_MOST) > room:
        reasons = "; ".join(unit.unaccounted) or "a noised histogram alone allows more"
        raise InvalidInput(f"no noise multiplier reaches {name}={limit:g}: {reasons}")
    z = smallest_noise_multiplier(gained, target_epsilon=room)
    while certified and gained(z, "exact") > room:
        z = _next(z)
    return z


def _figure(what: Training, *, delta: float, accountant: str | None) -> float:
    if accountant is None:
        return certify(what, delta=delta, effort="running").epsilon
    return certify_by(accountant, what, delta=delta).epsilon


def _costs_more(unit: Training, z: float, delta: float, target_epsilon: float) -> bool:
    """Whether the certified cost at noise multiplier `z` exceeds the target."""
    return certify(unit.scale_noise(z), delta=delta).epsilon > target_epsilon


def smallest_noise_multiplier(
    epsilon_of: Callable[[float], float],
    *,
    target_epsilon: float,
    start: float = 1.0,
    stride: float = 2.0,
    precision: float = 1e-6,
) -> float:
    """The smallest z with epsilon_of(z) <= target, rounded up to 5 digits; epsilon_of
    must not rise with z. The answer has been evaluated and meets the target. The search
    starts at `start`, steps by the factor `stride` and ends within the relative
    `precision`.

    Raises: InvalidInput where no z up to 10^12 does.
    """
    low = high = start
    gaps: dict[float, float] = {}

    def gap(z: float) -> float:
        """log(epsilon / target): at most 0 where z meets the target."""
        if z not in gaps:
            gaps[z] = math.log(max(epsilon_of(z), 1e-300)) - math.log(target_epsilon)
        return gaps[z]

    while gap(high) > 0:
        low, high = high, high * stride
        if high > _MOST:
            raise InvalidInput(
                f"no noise multiplier reaches target_epsilon={target_epsilon:g}"
            )
    while low > _LEAST and gap(low) <= 0:
        low, high = low / stride, low
    if low < high and gap(low) > 0:  # else every z tried meets the target
        # In logarithms epsilon is nearly a line, so that few evaluations are needed.
        # The ends keep the signs that they were chosen for: exp(log(z)) is not z, to
        # the last digit.
        ends = {math.log(low): low, math.log(high): high}
        root = brentq(
            lambda log_z: gap(ends.get(log_z, math.exp(log_z))),
            min(ends),
            max(ends),
            xtol=precision,
        )
        high = ends.get(root, math.exp(root))
    z = _round_up(high)
    while gap(z) > 0:  # the root is found from either side
        z = _next(z, precision)
    return z


def near(
    epsilon_of: Callable[[float], float], *, target_epsilon: float, guess: float
) -> float | None:
    """As `smallest_noise_multiplier`, in about four evaluations where `guess` is close
    and the curve smooth; else None.
    """

    def gap(log_z: float) -> float:
        return math.log(max(epsilon_of(math.exp(log_z)), 1e-300) / target_epsilon)

    start = math.log(guess)
    try:  # secants; the last step is shorter than `tol`, and what is left far shorter
        root = newton(gap, start, x1=start + 0.01, tol=1e-5, maxiter=6)
    except (RuntimeError, ArithmeticError):
        return None
    z = _round_up(math.exp(root))
    return (
        z if _NEARLY_ALL * target_epsilon <= epsilon_of(z) <= target_epsilon else None
    )


@lru_cache(maxsize=16_384)
def _calibrate(
    unit: Training, delta: float, target_epsilon: float, accountant: str | None
) -> float:
    """The noise multiplier for a release given at noise multiplier 1."""
    if accountant is None:

        def nearly(z: float) -> float:
            """Close to the exact figure and mostly above it, in some hundredths of a
            second.
            """
            what = unit.scale_noise(z)
            steps = what.everything
            if is_long(steps) and not pld.unsupported_reason(
                steps, delta=delta, replace_one=False
            ):
                # The Gaussian mechanism that a long composition tends to: close, but no
                # bound.
                mu = math.sqrt(sum(step.count for step in steps)) * pld.typical_loss(
                    steps
                )
                return gaussian_epsilon(mu, delta)
            return certify(what, delta=delta, effort="plan").epsilon

        def figure(z: float) -> float:
            """The exact figure, in tenths of a second."""
            return certify(unit.scale_noise(z), delta=delta, effort="running").epsilon

        guess = smallest_noise_multiplier(
            nearly, target_epsilon=target_epsilon, precision=1e-4
        )
        found = near(figure, target_epsilon=target_epsilon, guess=guess)
        return found or smallest_noise_multiplier(
            figure, target_epsilon=target_epsilon, start=guess, stride=1.1
        )
    return _by_name(unit, delta, target_epsilon, accountant)


def _by_name(
    unit: Training, delta: float, target_epsilon: float, accountant: str
) -> float:
    """The noise multiplier by one accountant.

    Raises: CannotAnalyze where the noise that meets the target is outside of its
        theorem, or its bound falls from above the target to far below it at once.
    """

    def known(z: float) -> float:
        return _figure(unit.scale_noise(z), delta=delta, accountant=accountant)

    def figure(z: float) -> float:
        try:
            return known(z)
        except CannotAnalyze:
            return math.inf

    known(_MOST)
    guess = _calibrate(unit, delta, target_epsilon, None)
    z = smallest_noise_multiplier(
        figure, target_epsilon=target_epsilon, start=guess, stride=1.1
    )
    if (met := figure(z)) < _LEAST_SHARE * target_epsilon:
        more = known(
            z * _LEAST_SHARE
        )  # raises where a little less noise has no figure at all
        raise CannotAnalyze(
            f"{accountant} has no bound between {format_epsilon(met)} and"
            f" {format_epsilon(more)} at delta={delta:g}: expected a larger"
            " target, or another privacy.accountant"
        )
    return z


def _next(z: float, precision: float = 0.0) -> float:
    """A larger number of 5 digits, beyond the relative `precision`."""
    return _round_up(z * (1 + max(precision, 10.0**-_DIGITS)))


def _round_up(z: float) -> float:
    """Rounded up to 5 significant digits.

    >>> _round_up(0.905271), _round_up(1.5)
    (0.90528, 1.5)
    """
    digits = _DIGITS - 1 - math.floor(math.log10(z))
    rounded = round(z, digits)
    return rounded if rounded >= z else round(rounded + 10.0**-digits, digits)

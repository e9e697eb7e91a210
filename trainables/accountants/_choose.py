"""Every figure of one mechanism, by the tightest sound accountant, at planning time or exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from types import ModuleType
from typing import Literal

from trainables import catalogue
from trainables.accountants import _renyi, gaussian, paper_zcdp, pld
from trainables.accountants._gauss import composed_mu, participation_epsilon, terms_of
from trainables.accountants._release import Release, release
from trainables.accountants._values import warnings
from trainables.errors import CannotAnalyze
from trainables.guarantee.mechanism import Mechanism
from trainables.privacy.claim import meaning
from trainables.privacy.summary import PrivacySummary

Effort = Literal["plan", "running", "exact"]
_USUAL = {"shuffle": "gaussian", "poisson": "pld", "random_allocation": "rdp"}
_NOISE_GRID, _FINE_NOISE_GRID = 64, 256  # steps of the noise grid in a factor of 2
_MANY_PHASES, _FINEST_NOISE_GRID = 100, 1 << 14


def account(
    mechanism: Mechanism, *, exact: bool = True, accountant: str | None = None
) -> PrivacySummary:
    """All figures of a mechanism at its own delta.

    `exact=False` is for planning thousands of trials: every figure is an upper bound of the exact
    one, `tight` says whether it equals it, and `epsilon_replace_one` under Poisson sampling is
    left out. `accountant` is an entry of this shelf, default the tightest that is sound here.

    Raises: InvalidInput for an unknown accountant, CannotAnalyze where it does not apply.
    """
    exactly, delta = release(mechanism), mechanism.delta
    what = _within_reach(exactly)
    effort: Effort = "exact" if exact else "plan"
    if accountant is None:
        value, name, tight = best(exactly, delta=delta, effort=effort)
    else:
        module, name = bounding(accountant), accountant
        value = float(module.of_release(what, delta=delta))
        tight = bool(getattr(module, "is_exact", _never)(what)) and what == exactly
    profile = _profile(what, name, delta=delta) if exact else ()
    return PrivacySummary(
        epsilon=value,
        delta=delta,
        accountant=name,
        tight=tight,
        epsilon_paper=(
            paper_zcdp.epsilon(mechanism, delta=delta) if paper_zcdp.applies(mechanism) else None
        ),
        epsilon_rdp=_rdp(what, delta, exact=exact),
        epsilon_replace_one=_replace_one(what, delta, value, exact=exact),
        noise_multiplier=mechanism.noise_multiplier,
        effective_noise_multiplier=tuple(
            mechanism.effective_noise_multiplier_at(epoch) for epoch in range(mechanism.epochs)
        ),
        neighboring_relation=mechanism.neighboring_relation,
        **asdict(meaning(value, delta=delta, profile=profile)),
        unaccounted=_reasons(what),
        warnings=warnings(mechanism),
    )


def epsilon_after(mechanism: Mechanism, epochs: int) -> float:
    """Epsilon spent after `epochs` epochs, 0 for none: a quick upper bound of the figure that
    `account` gives for a trial stopped there.
    """
    what = release(mechanism.first(epochs))
    return best(what, delta=mechanism.delta, effort="running")[0] if epochs else 0.0


def bounds_after(mechanism: Mechanism, epochs: int) -> dict[str, float]:
    """Upper bounds of the epsilon of `epochs` epochs, quick enough for use between epochs."""
    stopped = mechanism.first(epochs)
    if mechanism.sampling == "shuffle" or not mechanism.noise_decay:
        bound = epsilon_after(mechanism, epochs)
    else:  # a distribution for each epoch's noise would take seconds
        bound = account(stopped, exact=False).epsilon
    spent = {"epsilon_spent": bound}
    if paper_zcdp.applies(mechanism):
        spent["epsilon_paper_spent"] = paper_zcdp.epsilon(stopped, delta=mechanism.delta)
    return spent


@lru_cache(maxsize=16_384)
def best(what: Release, *, delta: float, effort: Effort) -> tuple[float, str, bool]:
    """(epsilon, accountant, whether it is that accountant's exact figure) of a release.

    More effort never gives a larger epsilon: a finer grid alone may, because its sums are longer
    and what they round up counts where delta is tiny.
    """
    found = _at_effort(what, delta, effort)
    if effort == "plan":
        return found
    coarser = best(what, delta=delta, effort="running" if effort == "exact" else "plan")
    return coarser if coarser[0] < found[0] else found


def _at_effort(what: Release, delta: float, effort: Effort) -> tuple[float, str, bool]:
    exactly, what = what, _within_reach(what)
    full = what.sampling == "poisson" and what.sample_rate >= 1
    if what.sampling == "shuffle" or full or not what.is_finite or not what.phases:
        name = "gaussian" if full else _USUAL[what.sampling]
        return gaussian.of_release(what, delta=delta), name, True
    points = _points(what, effort)
    if what.sampling == "poisson" and points is not None and not pld.is_dear(what, delta=delta):
        planned = _renyi.FEW_ORDERS, _on_noise_grid(what)
        orders, shared = (_renyi.ORDERS, what) if effort == "exact" else planned
        # The bounds are below where delta is as small as the rounding of so many steps.
        figures = {
            "pld": pld.of_release(what, delta=delta, points=points),
            "rdp": _renyi.of_release(shared, delta=delta, orders=orders),
            "gaussian": gaussian.of_release(what, delta=delta),
        }
        name = min(figures, key=lambda each: figures[each])
        return figures[name], name, name == "pld" and effort != "plan" and what == exactly
    if what.sampling == "poisson":
        orders, shared = _renyi.FEW_ORDERS, _on_noise_grid(what)
    elif effort == "exact":
        orders, shared = _renyi.ORDERS, what
    else:  # a vector costs hundredths of a second, whatever the number of its orders
        grid = _NOISE_GRID if effort == "plan" else _FINE_NOISE_GRID
        orders, shared = _renyi.ORDERS, _on_noise_grid(what, grid)
    bounds = {
        "gaussian": gaussian.of_release(what, delta=delta),
        "rdp": _renyi.of_release(shared, delta=delta, orders=orders),
    }
    name = min(bounds, key=lambda each: bounds[each])
    return bounds[name], name, False


def _points(what: Release, effort: Effort) -> int | None:
    """The points of a grid; None where planning does without a distribution."""
    few = len(what.phases) <= pld.FEW_PHASES
    if effort == "plan":
        return pld.COARSE if few and not pld.is_long(what) else None
    return pld.MEDIUM if few and effort == "running" else pld.points_for(what)


def bounding(accountant: str) -> ModuleType:
    """The accountant of that name, which must be a guarantee.

    Raises: InvalidInput for an unknown accountant, CannotAnalyze for another kind.
    """
    module = catalogue.entry("accountants", accountant)
    allowed = catalogue.names("accountants", kind="guarantee")
    if accountant not in allowed:
        reason = getattr(module, "NO_GUARANTEE", "it is no guarantee")
        raise CannotAnalyze(f"{accountant}: {reason} (expected {', '.join(allowed)})")
    return module


def _profile(what: Release, accountant: str, *, delta: float) -> Sequence[tuple[float, float]]:
    """Further pairs (epsilon, delta) that hold by the entry's `profile`; none without one."""
    module = catalogue.entry("accountants", accountant)
    if not what.is_finite or not hasattr(module, "profile"):
        return ()
    return tuple(module.profile(what, delta=delta))


def _never(what: Release) -> bool:
    """`is_exact` of an entry that has none: its figure counts as an upper bound."""
    return False


def _rdp(what: Release, delta: float, *, exact: bool) -> float:
    if exact or what.sampling == "shuffle":
        return _renyi.of_release(one_gaussian(what), delta=delta)
    return _renyi.of_release(_on_noise_grid(what), delta=delta, orders=_renyi.FEW_ORDERS)


def one_gaussian(what: Release) -> Release:
    """Epochs on all records combined into one Gaussian mechanism, so one vector is computed."""
    summed = what.sampling == "shuffle" or what.sample_rate >= 1
    if not summed or not what.is_finite or not what.everything:
        return what
    return replace(what, phases=((1 / composed_mu(what.everything), 1),), unsampled=())


def _on_noise_grid(what: Release, fineness: int = _NOISE_GRID) -> Release:
    """Noise rounded down by at most 1.1 percent, so that thousands of configs share vectors."""
    if len(what.phases) <= pld.FEW_PHASES or not what.is_finite:
        return what
    return _round_down(what, fineness)


@lru_cache(maxsize=1_024)
def _within_reach(what: Release) -> Release:
    """A release of at most 100 phases, whose figure takes seconds. Decaying noise with more phases
    is rounded down on the finest grid that leaves 100. Gaussian mechanisms on all records are
    combined into one without rounding.
    """
    if len(what.phases) <= _MANY_PHASES or not what.is_finite:
        return what
    if what.sampling == "shuffle" or what.sample_rate >= 1:
        return one_gaussian(what)
    fineness: float = _FINEST_NOISE_GRID
    while len((found := _round_down(what, fineness)).phases) > _MANY_PHASES:
        fineness /= 2  # of nested grids, so that one more epoch never costs less
    return found


def _round_down(what: Release, fineness: float) -> Release:
    """Noise rounded down to `fineness` steps in a factor of 2."""
    counts: dict[int, int] = {}
    for sigma, count in what.phases:
        step = math.floor(math.log2(sigma) * fineness)
        counts[step] = counts.get(step, 0) + count
    return replace(
        what,
        phases=tuple(
            (2 ** (step / fineness), count) for step, count in sorted(counts.items(), reverse=True)
        ),
    )


def _replace_one(what: Release, delta: float, value: float, *, exact: bool) -> float | None:
    """Epsilon when a record is replaced: the shuffled figure itself, or that of the sampling."""
    if what.sampling == "shuffle" or not what.is_finite:
        return value
    if not exact:
        return None
    bound = participation_epsilon(terms_of(what, shift=2.0), delta=delta)
    if what.sampling == "random_allocation":
        return min(
            bound,
            _renyi.to_epsilon(_renyi.replace_one_divergences(_renyi.curve(what)), delta=delta),
        )
    if pld.is_dear(what, delta=delta) or what.sample_rate >= 1:
        return bound  # which is the figure itself where every record is in every step
    points = pld.points_for(what)
    return min(bound, pld.of_release(what, delta=delta, points=points, replace_one=True))


def _reasons(what: Release) -> tuple[str, ...]:
    """Why epsilon is infinite, also where noise decays to nothing."""
    if what.is_finite or what.unaccounted:
        return what.unaccounted
    return ("the noise decays to nothing (noise_decay)",)

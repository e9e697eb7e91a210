"""The one door to an epsilon: the least that a proof gives for what was released.

Cards, the ledger, the last word of a plan and the answer of a calibration call
`certify` and nothing else. Each bound holds by itself, so their minimum does: steps on
all records are one Gaussian mechanism, which is exact (`gaussian`); of sampled steps
the privacy loss distribution is exact up to a grid that errs upwards (`pld`); Rényi
divergences add up for all of them (`renyi`), those of random allocation (`allocation`)
and of a selection among them.

With the effort "exact" both exact figures are those of `dp_accounting` (`library`)
where it has them; with less effort our own forms give them, which are faster and at or
above.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np

from trainables.dp.accounting import library, pld, renyi
from trainables.dp.accounting.gaussian import (
    is_exact,
    merge_gaussians,
    mu_of,
    without_amplification,
)
from trainables.dp.accounting.pld import for_replace_one
from trainables.dp.accounting.privacy_semantics import (
    FPRS,
    PROFILE_DELTAS,
    PROFILE_EPSILONS,
    ClaimMeaning,
    gaussian_delta,
    meaning,
    tangent,
)
from trainables.dp.accounting.releases import (
    Allocated,
    BestOf,
    Gaussian,
    Parts,
    Release,
    Sampled,
    Step,
    Training,
    by_part,
    merged,
)
from trainables.dp.mechanism import NeighboringRelation
from trainables.errors import CannotAnalyze, InvalidInput

OWN = ("gaussian", "pld", "rdp")  # bounds of `certify`, whose profiles are known
ACROSS_SPLITS = (
    "a record that is replaced by one of another part, over several splits or beside"
    " trials without parts: no bound is computed"
)
MIXED_UNITS = (
    "groups (privacy.unit) and single records are composed: no theorem covers a record"
    " that is replaced by one of another group"
)
# More effort never gives a larger epsilon, because it includes the less.
Effort = Literal["plan", "total", "running", "exact"]
_CHEAPER: dict[Effort, tuple[Effort, ...]] = {
    "plan": ("plan",),
    "total": ("plan", "total"),
    "running": ("plan", "running"),
    "exact": ("plan", "running", "exact"),
}
_POINTS = {
    "plan": pld.COARSE,
    "total": pld.MEDIUM,
    "running": pld.MEDIUM,
    "exact": pld.FINE,
}
_MOST = {
    "plan": 3,
    "total": 16,
    "running": 100,
    "exact": 100,
}  # distributions that are composed
FEW = 3  # as many are composed on the finest grid
_LONG = 100_000  # sampled steps, whose distribution takes tenths of a second
_NOISE_GRID = {
    "plan": 64,
    "total": 0,
    "running": 256,
    "exact": 0,
}  # steps in a factor of 2
_MANY, _FINEST_NOISE_GRID = 100, 1 << 14


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """(`epsilon`, `delta`) of `num_releases` releases on the same records together.

    `epsilon` is `math.inf`, with the reasons in `unaccounted`, where no finite one
    holds; `accountant` names the bound that gives it, `tight` says whether it is the
    smallest epsilon (up to the grid), `by_library` whether `dp_accounting` gives it.
    `neighboring_relation` is None for no release at all. `max_tpr_1pct` is the largest
    true-positive rate of a test with 1 % false positives, where it was asked for
    (`with_risk`).
    """

    epsilon: float
    delta: float
    accountant: str
    tight: bool
    neighboring_relation: NeighboringRelation | None
    num_releases: int
    unaccounted: tuple[str, ...] = ()
    by_library: bool = False
    max_tpr_1pct: float | None = None


# An upper bound of epsilon, its name, and whether `dp_accounting` gives it.
Bound = tuple[float, str, bool]


def certify(
    what: Release | Sequence[Release],
    *,
    delta: float,
    effort: Effort = "exact",
    only: str | None = None,
    replace_one: bool = False,
) -> Certificate:
    """The certificate of a release, or of all releases together (composition).

    Releases of one relation have it. Shuffled ones beside sampled ones: replace-one,
    which a sampled one also has (each of its two records moves the sum), while a
    shuffled one has no add-or-remove guarantee. Couples of records, several times or
    beside records: for one record replaced, as that replaces its couple and nothing
    else, however often the records are coupled anew. Groups beside records: infinite,
    because a record that is replaced may carry another group's key: two groups change
    (docs/guides/privacy.md). `replace_one` asks for that relation in any case. Of
    releases about parts the dearest part counts (`by_part`), beside shuffled ones for a
    record replaced by one of its part. `effort` is how fine the grids are, `only` names
    one bound.

    Raises: InvalidInput unless 0 < delta < 1; CannotAnalyze where `only` has no figure.
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"expected 0 < delta < 1, got delta={delta}")
    every = (what,) if isinstance(what, Release) else tuple(what)
    if any(isinstance(each, Parts) for each in every):
        return _dearest_part(every, delta, effort, only, replace_one)
    given = tuple(each for each in every if not each.is_nothing)
    units = {each.unit for each in given}
    relations = {each.neighboring_relation for each in given}
    coupled = "couple" in units and len(given) > 1
    relation: NeighboringRelation | None = None if not given else "add_or_remove_one"
    if given and (replace_one or coupled or "replace_one" in relations):
        relation = "replace_one"
    reasons = tuple(dict.fromkeys(reason for each in given for reason in each.reasons))
    if "group" in units and len(units) > 1:
        reasons = (*reasons, MIXED_UNITS)
    least: Bound = (math.inf, "gaussian" if relation == "replace_one" else "pld", False)
    tight = True
    if not reasons:
        least, tight = _least(given, delta, effort, only, relation == "replace_one")
    value, name, by_library = least
    return Certificate(
        epsilon=value,
        delta=delta,
        accountant=name,
        tight=tight,
        neighboring_relation=relation,
        num_releases=len(given),
        unaccounted=reasons,
        by_library=by_library,
    )


def _dearest_part(
    every: tuple[Release, ...],
    delta: float,
    effort: Effort,
    only: str | None,
    replace_one: bool,
) -> Certificate:
    """The certificate of the part of the largest epsilon: of parallel composition. A
    record that is replaced by one of another part is removed from the one and added to
    the other, which costs what was released of both.
    """
    compose = partial(certify, delta=delta, effort=effort, only=only)
    given = tuple(each for each in every if not each.is_nothing)
    found = [compose(way) for way in by_part(given)]
    if replace_one:
        parts = [each for each in given if isinstance(each, Parts)]
        training, held_out = (
            [getattr(each, name) for each in parts] for name in ("training", "held_out")
        )
        # A held-out record is between 0 and the bound whatever it is, so that another
        # in its place costs no more than none. Gaussian noise is as private both ways:
        # a record that moves to or from training costs the training's own way.
        found = [
            compose(training, replace_one=True),
            compose([*training, *held_out]),
            compose([*held_out, *held_out]),
        ]
    dearest = max(found, key=lambda each: each.epsilon)
    if replace_one and (
        len(parts) < len(given) or len({each.split for each in parts}) > 1
    ):
        reasons = (*dearest.unaccounted, ACROSS_SPLITS)
        dearest = replace(dearest, epsilon=math.inf, unaccounted=reasons)
    relation = "replace_one" if replace_one and given else dearest.neighboring_relation
    return replace(dearest, num_releases=len(given), neighboring_relation=relation)


def _least(
    given: tuple[Release, ...],
    delta: float,
    effort: Effort,
    only: str | None,
    replace_one: bool,
) -> tuple[Bound, bool]:
    """The least bound at this effort and below, and whether it is exact."""
    trainings = [each for each in given if isinstance(each, Training)]
    near = [_within_reach(each) for each in trainings]
    exactly, steps = (
        merged(step for each in some for step in _under(each, replace_one))
        for some in (trainings, near)
    )
    best_of = tuple(each for each in given if isinstance(each, BestOf))
    if not best_of and is_exact(exactly) and only in (None, "gaussian"):
        return _gaussian(exactly, delta, effort), True
    efforts = _CHEAPER[effort] if only is None else (effort,)
    steps = merge_gaussians(steps)
    found = [
        _bounds(steps, best_of, delta, each, only, replace_one) for each in efforts
    ]
    bounds = [bound for each in found for bound in each]
    if ("pld", True) in [
        bound[1:] for bound in bounds
    ]:  # the library has the last word
        bounds = [bound for bound in bounds if bound[1:] != ("pld", False)]
    least = min(bounds)
    is_tight = (
        least[1] == "pld" and effort in ("running", "exact") and near == trainings
    )
    return least, is_tight


def _gaussian(steps: tuple[Step, ...], delta: float, effort: Effort) -> Bound:
    """The exact figure of steps on all records."""
    known = library.gaussian_epsilon(mu_of(steps), delta) if effort == "exact" else None
    if known is not None:
        return known, "gaussian", True
    return without_amplification(steps, delta=delta), "gaussian", False


@lru_cache(maxsize=16_384)
def _bounds(
    steps: tuple[Step, ...],
    best_of: tuple[BestOf, ...],
    delta: float,
    effort: Effort,
    only: str | None,
    replace_one: bool,
) -> tuple[Bound, ...]:
    """What each bound gives that there is."""
    if not steps and not best_of:
        return ((0.0, only or "gaussian", True),)
    found: list[Bound] = []
    if only in (None, "gaussian") and not best_of:
        known = for_replace_one(steps) if replace_one else steps
        found.append((without_amplification(known, delta=delta), "gaussian", False))
    if only in (None, "rdp"):
        of_library = not best_of and not any(
            isinstance(step, Allocated) for step in steps
        )
        found.append(
            (_renyi(steps, best_of, delta, effort, replace_one), "rdp", of_library)
        )
    if only in (None, "pld"):
        refusal = "pld: expected no selection (rdp bounds it)" if best_of else ""
        refusal = refusal or pld.unsupported_reason(
            steps, delta=delta, replace_one=replace_one
        )
        if only and refusal:
            raise CannotAnalyze(refusal)
        if not refusal and (only or _is_affordable(steps, effort)):
            found.append(_pld(steps, delta, effort, replace_one))
    return tuple(found)


def _pld(
    steps: tuple[Step, ...], delta: float, effort: Effort, replace_one: bool
) -> Bound:
    """The figure of the least of the grids, where delta is tiny not always the finest
    one.
    """
    own = partial(pld.epsilon_of, steps, delta=delta, replace_one=replace_one)
    if effort != "exact":
        return own(points=points_for(steps, effort)), "pld", False
    efforts = [each for each in _CHEAPER[effort] if _is_affordable(steps, each)]
    sizes = {points_for(steps, each) for each in (*efforts, effort)}
    least, points = min((own(points=each), each) for each in sizes)
    grid = pld.interval(steps, delta=delta, points=points)
    known = library.epsilon_of(steps, delta=delta, grid=grid, replace_one=replace_one)
    return (least, "pld", False) if known is None else (known, "pld", True)


def _renyi(
    steps: tuple[Step, ...],
    best_of: tuple[BestOf, ...],
    delta: float,
    effort: Effort,
    replace_one: bool,
) -> float:
    sampled, allocated = (
        any(isinstance(step, kind) for step in steps) for kind in (Sampled, Allocated)
    )
    if effort == "exact" and not (best_of or allocated or replace_one):
        return renyi.epsilon_of(steps, delta=delta)
    few = sampled and not (best_of or allocated)
    orders = renyi.FEW_ORDERS if few else renyi.ORDERS
    if (
        len(steps) > FEW and _NOISE_GRID[effort]
    ):  # so that thousands of configs share vectors
        steps = _round_down(steps, _NOISE_GRID[effort])
    # Steps on all records state their sigma for the relation; the others for one more
    # or less.
    own = [step for step in steps if not replace_one or isinstance(step, Gaussian)]
    total = renyi.sum_of(own, orders)
    moved = renyi.sum_of([step for step in steps if step not in own], orders)
    for each in best_of:
        if replace_one and each.neighboring_relation != "replace_one":
            moved = moved + renyi.curve(each, orders)
        else:
            total = total + renyi.curve(each, orders)
    if moved.any():
        total = total + renyi.replace_one_divergences(moved, orders)
    return renyi.to_epsilon(np.asarray(total), delta=delta, orders=orders)


def points_for(steps: tuple[Step, ...], effort: Effort = "exact") -> int:
    """The points of a grid: fewer the more distributions are composed."""
    return _POINTS[effort] if len(steps) <= FEW else pld.QUICK


def _is_affordable(steps: tuple[Step, ...], effort: Effort) -> bool:
    """Whether the effort pays for that many distributions."""
    return len(steps) <= _MOST[effort] and (effort != "plan" or not is_long(steps))


def is_long(steps: tuple[Step, ...]) -> bool:
    """Whether there are so many steps that a distribution takes tenths of a second."""
    return sum(step.count for step in steps if isinstance(step, Sampled)) > _LONG


def _under(what: Training, replace_one: bool) -> tuple[Step, ...]:
    """Its steps, those on all records with the noise that they have under the
    relation.
    """
    if not replace_one or what.neighboring_relation == "replace_one":
        return what.everything
    return for_replace_one(what.everything, kinds=Gaussian)


@lru_cache(maxsize=1_024)
def _within_reach(what: Training) -> Training:
    """A release of at most 100 sizes of noise, whose figure takes seconds: decaying
    noise with more is rounded down on the finest grid that leaves 100. Steps on all
    records need no rounding.
    """
    steps, fineness = what.steps, float(_FINEST_NOISE_GRID)
    while len(steps) > _MANY and not is_exact(steps):
        steps = _round_down(what.steps, fineness)
        fineness /= 2  # of nested grids, so that one more epoch never costs less
    return replace(what, steps=steps)


def _round_down(steps: tuple[Step, ...], fineness: float) -> tuple[Step, ...]:
    """Noise rounded down to `fineness` steps in a factor of 2: it costs more, never
    less.
    """
    grid = [
        2 ** (math.floor(math.log2(step.sigma) * fineness) / fineness) for step in steps
    ]
    return merged(
        replace(step, sigma=sigma) for step, sigma in zip(steps, grid, strict=True)
    )


def with_risk(
    found: Certificate, what: Sequence[Release], *, effort: Effort = "total"
) -> Certificate:
    """The certificate of releases with what it allows an attacker; as it is where it
    has no finite epsilon, and of a filter, which proves one order of divergence alone:
    its pair says next to nothing of a test (privacy guide).
    """
    if found.accountant not in OWN or math.isinf(found.epsilon):
        return found
    risk = meaning_of(what, found, effort=effort).max_tpr_1pct
    return replace(found, max_tpr_1pct=risk)


def meaning_of(
    what: Release | Sequence[Release],
    found: Certificate,
    *,
    effort: Effort = "exact",
) -> ClaimMeaning:
    """What the certificate `found` of the releases `what` allows an attacker who tests
    whether one unit was in the data: largest true-positive rates and the largest
    advantage, at the certificate's delta. More of the privacy profile of `what` is read
    with more `effort`, which never makes a figure larger. All figures are 1 or infinite
    where epsilon is infinite.
    """
    pairs = pairs_of(what, found, effort=effort)
    return meaning(found.epsilon, delta=found.delta, profile=pairs)


def pairs_of(
    what: Release | Sequence[Release],
    found: Certificate,
    *,
    effort: Effort,
    fprs: tuple[float, ...] = FPRS,
) -> list[tuple[float, float]]:
    """All pairs (epsilon, delta) that are known to hold of releases with the
    certificate `found`. Those of one relation and unit are one mechanism with a
    profile; of others the certified pair alone is known, as it is of couples, whose
    relation depends on their number, and of a filter.
    """
    every = (what,) if isinstance(what, Release) else what
    whole = as_one(every)
    pairs = [(found.epsilon, found.delta)]
    if whole and found.accountant in OWN and math.isfinite(found.epsilon):
        pairs += profile(
            whole, found.accountant, delta=found.delta, effort=effort, fprs=fprs
        )
    return pairs


def as_one(every: Sequence[Release]) -> Release | None:
    """All releases as one, whose whole privacy profile is known: a single one, or the
    trainings of one neighbouring relation and unit, or those of one split with their
    held-out parts; else None.
    """
    given = [each for each in every if not each.is_nothing]
    if len(given) == 1:
        return given[0]
    parts = [each for each in given if isinstance(each, Parts)]
    if parts and len(parts) == len(given) and len({p.split for p in parts}) == 1:
        training = as_one([each.training for each in parts])
        held_out = as_one([each.held_out for each in parts])
        if isinstance(training, Training) and isinstance(held_out, Training):
            return replace(parts[0], training=training, held_out=held_out)
        return None
    trainings = [each for each in given if isinstance(each, Training)]
    kinds = {(each.neighboring_relation, each.unit) for each in trainings}
    if len(trainings) < len(given) or len(kinds) != 1 or given[0].unit == "couple":
        return None
    steps = merged(step for each in trainings for step in each.everything)
    return replace(trainings[0], steps=steps, beside=())


def profile(
    what: Release,
    accountant: str,
    *,
    delta: float,
    epsilons: tuple[float, ...] = PROFILE_EPSILONS,
    deltas: tuple[float, ...] = PROFILE_DELTAS,
    effort: Effort = "exact",
    fprs: tuple[float, ...] = FPRS,
) -> list[tuple[float, float]]:
    """Further pairs (epsilon, delta) that hold of a release by the bound that gives its
    figure at `delta`: at `deltas` by rdp, at `epsilons` by the others, and of Gaussian
    mechanisms at those that bound a test with a false-positive rate of `fprs` best. Of
    parts: at each epsilon the larger delta.
    """
    if what.reasons or what.is_nothing:
        return []
    if isinstance(what, Parts):
        mu = mu_of(what.held_out.everything)
        known = profile(
            what.training,
            accountant,
            delta=delta,
            epsilons=epsilons,
            deltas=deltas,
            effort=effort,
            fprs=fprs,
        )
        return [(each, max(at, gaussian_delta(mu, each))) for each, at in known]
    if not isinstance(what, Training) or accountant == "rdp":
        if effort == "plan":
            return []  # the pair alone, in a plan of thousands
        divergences = renyi.curve(
            _within_reach(what) if isinstance(what, Training) else what
        )
        return [(renyi.to_epsilon(divergences, delta=each), each) for each in deltas]
    steps = merge_gaussians(_within_reach(what).everything)
    if accountant == "pld":
        grid = pld.interval(steps, delta=delta, points=points_for(steps, effort))
        if effort == "exact":
            return library.profile(steps, grid=grid, epsilons=epsilons)
        return pld.profile(steps, grid=grid, epsilons=epsilons)
    mu = mu_of(steps)  # of steps that are sampled an upper bound
    at = (*epsilons, *(tangent(mu, fpr=fpr) for fpr in fprs))
    pairs = [(each, gaussian_delta(mu, each)) for each in at]
    if not is_exact(steps):
        pairs += [(without_amplification(steps, delta=each), each) for each in deltas]
    return pairs

"""The input of accountants: noise over sensitivity of a mechanism, with counts, as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter

from trainables.errors import InvalidInput
from trainables.guarantee.mechanism import Mechanism
from trainables.privacy.summary import plain
from trainables.sections import NeighboringRelation, Sampling


def merge_phases(phases: Iterable[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """Phases with the counts of equal noise added up; composition does not depend on the order.

    >>> merge_phases([(1.0, 2), (0.5, 1), (1.0, 3)])
    ((1.0, 5), (0.5, 1))
    """
    counts: dict[float, int] = {}
    for sigma, count in phases:
        if count:
            counts[sigma] = counts.get(sigma, 0) + count
    return tuple(sorted(counts.items(), reverse=True))


Phases = Annotated[tuple[tuple[float, int], ...], AfterValidator(merge_phases)]


@dataclass(frozen=True, kw_only=True)
class BestOf:
    """The release of only the best of a secret number of independent trials, each of which draws
    one of `configurations`. The number is drawn beforehand with this `mean`, from a truncated
    negative binomial of this `shape` (0 logarithmic, 1 geometric) or, with shape infinity, from a
    Poisson. Where all its trials are released later, `shown` has them, and the larger of both costs
    counts, order by order.
    """

    shown: Annotated[tuple[Release, ...], Field(exclude_if=lambda shown: not shown)] = ()
    mean: float
    shape: float
    configurations: tuple[Release, ...]


# A reader of the phases of a selection alone finds no noise, so no finite epsilon.
_NO_NOISE = ((0.0, 1),)


@dataclass(frozen=True, kw_only=True)
class Release:
    """One Gaussian mechanism after another on the same records.

    `phases` holds pairs (sigma_eff, count), sorted by falling sigma_eff, no sigma_eff twice. With
    sampling poisson a count is of steps, each on a sample of rate `sample_rate` (1 for full
    batches); with shuffle it is of epochs, each a Gaussian mechanism on all records, and
    `sample_rate` is 1; with random_allocation it is of epochs of 1 / `sample_rate` steps.
    `unsampled` has
    further pairs that no calibration scales: Gaussian mechanisms on all records beside the training
    steps, a noised histogram say. `unaccounted` says why no finite epsilon holds; then phases do
    not matter.
    """

    # In the order of the ledger's entries, which have the first two only where they say something.
    unsampled: Annotated[Phases, Field(exclude_if=lambda phases: not phases)] = ()
    best_of: Annotated[BestOf | None, Field(exclude_if=lambda best: best is None)] = None
    phases: Phases
    sampling: Sampling
    sample_rate: Annotated[float, Field(gt=0, le=1)]
    neighboring_relation: NeighboringRelation
    unit: str = "record"
    unaccounted: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether it is empty: no phase, and no reason for infinity."""
        return not (self.phases or self.unsampled or self.unaccounted or self.best_of)

    @property
    def is_finite(self) -> bool:
        """Whether a finite epsilon can hold."""
        if self.best_of is not None:
            return all(e.is_finite for e in (*self.best_of.configurations, *self.best_of.shown))
        return not self.unaccounted and all(_squares(sigma) for sigma, _ in self.everything)

    @property
    def steps_in_epoch(self) -> int:
        """Number of steps from which random allocation chooses one for each record."""
        return round(1 / self.sample_rate)

    @property
    def everything(self) -> tuple[tuple[float, int], ...]:
        """Phases and unsampled phases together, for releases without sampling."""
        return merge_phases((*self.phases, *self.unsampled))

    def scale_noise(self, factor: float) -> Release:
        """The release with `factor` times the training noise; unsampled phases are unchanged."""
        return replace(self, phases=tuple((sigma * factor, count) for sigma, count in self.phases))

    def quieter(self, factor: float) -> Release:
        """The release with `factor` < 1 times the noise of all phases, an upper bound."""
        beside = tuple((sigma * factor, count) for sigma, count in self.unsampled)
        return replace(self.scale_noise(factor), unsampled=beside)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as the ledger keeps it."""
        found: dict[str, Any] = plain(_RELEASE.dump_python(self))
        return found


_RELEASE = TypeAdapter(Release)


def release(mechanism: Mechanism, *, first: int = 0, last: int | None = None) -> Release:
    """The release of epochs `first` to `last` - 1 of a mechanism (default: of all).

    A part of an epoch is charged as a whole one; what was released before the first step (a noised
    histogram, what weights start from) with the first epoch.

    Raises: InvalidInput unless 0 <= first <= last <= epochs.
    """
    end = mechanism.epochs if last is None else last
    if not 0 <= first <= end <= mechanism.epochs:
        raise InvalidInput(
            f"expected 0 <= first <= last <= epochs ({mechanism.epochs}), got"
            f" first={first}, last={end}"
        )
    # A full batch is a Poisson sample of rate 1.
    sampling = "poisson" if mechanism.sampling == "full" else mechanism.sampling
    poisson = sampling == "poisson"
    rate = mechanism.sample_rate if poisson else 1.0
    if sampling == "random_allocation":
        rate = 1 / mechanism.steps_until(1)
    steps = [
        (
            mechanism.effective_noise_multiplier_at(epoch),
            mechanism.steps_in(epoch) if poisson else 1,
        )
        for epoch in range(first, end if mechanism.trains else first)
    ]
    histogram = []
    if mechanism.is_private and mechanism.histogram_noise_multiplier and first == 0 < end:
        histogram = [(mechanism.effective_histogram_noise_multiplier, 1)]
    return Release(
        phases=merge_phases(steps),
        unsampled=merge_phases(histogram),
        sampling=sampling,
        sample_rate=rate,
        neighboring_relation=mechanism.neighboring_relation,
        unit=mechanism.unit,
        unaccounted=mechanism.unaccounted if end > first else (),
    )


def best_of(configurations: Iterable[Release], *, mean: float, shape: float) -> Release:
    """The release of the best of a random number of trials (see `BestOf`).

    Raises: InvalidInput without a configuration, or where relations or units differ.
    """
    distinct = tuple(dict.fromkeys(configurations))
    kinds = {(what.neighboring_relation, what.unit) for what in distinct}
    if len(kinds) != 1:
        raise InvalidInput(
            "selection: expected configurations of one neighboring_relation and one unit, got"
            f" {sorted(kinds)}"
        )
    reasons = dict.fromkeys(reason for what in distinct for reason in what.unaccounted)
    return replace(
        distinct[0],
        phases=_NO_NOISE,
        unsampled=(),
        unaccounted=tuple(reasons),
        best_of=BestOf(mean=mean, shape=shape, configurations=distinct),
    )


def _squares(sigma: float) -> bool:
    """Whether 1 / sigma^2 is a finite number."""
    return sigma > 0 and math.isfinite(sigma) and sigma * sigma > 1e-290

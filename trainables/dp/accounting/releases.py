"""What a trial releases about its records, as frozen data: the input of `certify`.

A release is the steps of one training (`Training`), a training beside figures of
records that it does not train on (`Parts`), the best of a secret number of trainings
(`BestOf`), or without any finite epsilon (`Unaccounted`). Its steps are Gaussian
mechanisms whose `sigma` is the noise over the sensitivity, both of the sum of
a step, as `Mechanism` states them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Literal, TypeVar

from trainables.dp.mechanism import Mechanism, NeighboringRelation
from trainables.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """`count` Gaussian mechanisms, each on all records: an epoch of shuffled steps, in
    one of which each record is; a full batch; a noised histogram.
    """

    kind: Literal["gaussian"] = "gaussian"
    sigma: float
    rate: ClassVar[float] = 1.0
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """`count` Gaussian steps, in each of which each record is with probability `rate`,
    by itself (Poisson sampling).
    """

    kind: Literal["sampled"] = "sampled"
    sigma: float
    rate: float
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ValueError(f"expected 0 < rate < 1, got {self.rate}")


@dataclass(frozen=True, kw_only=True)
class Allocated:
    """`count` epochs of `steps` Gaussian steps, in one of which each record is, each
    equally likely (random allocation).
    """

    kind: Literal["allocated"] = "allocated"
    sigma: float
    rate: ClassVar[float] = 1.0  # of an epoch
    steps: int
    count: int = 1

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"expected steps >= 1, got {self.steps}")


Step = Gaussian | Sampled | Allocated
_MOST_SPLITS = 8
S = TypeVar("S", bound=Gaussian | Sampled | Allocated)


def merged(steps: Iterable[S]) -> tuple[S, ...]:
    """Steps by falling sigma, with the counts of equal ones added up: the order changes
    no epsilon.

    >>> merged([Gaussian(sigma=0.5), Gaussian(sigma=1.0, count=3), Gaussian(sigma=0.5)])[1].count
    2
    """
    counts: Counter[S] = Counter()
    for step in steps:
        counts[replace(step, count=1)] += step.count
    found = [replace(step, count=count) for step, count in counts.items() if count]
    return tuple(sorted(found, key=lambda step: (step.kind, -step.sigma, repr(step))))


@dataclass(frozen=True, kw_only=True)
class Training:
    """The release of one training: its Gaussian `steps`, one after another on the same
    records, under one `neighboring_relation` and for one `unit` (record, group or
    couple). Equal steps are merged into one with a count. `beside` are further Gaussian
    releases on the same records, such as a noised histogram, whose noise no calibration
    of the training changes.
    """

    kind: Literal["training"] = "training"
    steps: tuple[Step, ...]
    beside: tuple[Gaussian, ...] = ()
    neighboring_relation: NeighboringRelation
    unit: str = "record"

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", merged(self.steps))
        object.__setattr__(self, "beside", merged(self.beside))

    @property
    def everything(self) -> tuple[Step, ...]:
        """All steps and what stands beside them."""
        return merged((*self.steps, *self.beside))

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is released."""
        return not (self.steps or self.beside)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why no finite epsilon holds; empty where one does."""
        if all(_squares(step.sigma) for step in (*self.steps, *self.beside)):
            return ()
        return ("the noise decays to nothing (noise_decay)",)

    def scale_noise(self, factor: float) -> Training:
        """The release with `factor` times the training noise; what stands beside is
        unchanged.
        """
        return replace(self, steps=with_noise_scaled(self.steps, factor))


@dataclass(frozen=True, kw_only=True)
class Unaccounted:
    """A release for which no finite epsilon holds, with the `reasons`, one phrase each,
    that a plan, a card and the ledger show. It composes with others to an infinite
    epsilon, keeps its `neighboring_relation` and `unit`, and no noise changes it.
    """

    kind: Literal["unaccounted"] = "unaccounted"
    reasons: tuple[str, ...]
    neighboring_relation: NeighboringRelation
    unit: str = "record"
    is_nothing = False

    def scale_noise(self, factor: float) -> Unaccounted:
        """The same: no noise makes it finite."""
        return self


@dataclass(frozen=True, kw_only=True)
class Number:
    """The law of a number of trials that is drawn before a selection and kept secret:
    poisson, geometric or logarithmic (truncated negative binomials of shape 1 and 0,
    Papernot and Steinke 2022), and its `mean`, which is finite and at least 1.

    Raises: ValueError for another law or mean.
    """

    law: str
    mean: float

    def __post_init__(self) -> None:
        if self.law not in ("geometric", "logarithmic", "poisson"):
            raise ValueError(
                f"expected geometric, logarithmic or poisson, got {self.law!r}"
            )
        if not 1 <= self.mean < math.inf:
            raise ValueError(f"expected a finite mean >= 1, got {self.mean}")


@dataclass(frozen=True, kw_only=True)
class BestOf:
    """The best of a secret `number` of independent trials alone, each of which draws
    one of `configurations`, of one relation and unit. Where all its trials are released
    later, `shown` has them, and the larger of both costs counts, order by order.
    """

    kind: Literal["best_of"] = "best_of"
    number: Number
    configurations: tuple[Training | Unaccounted, ...]
    shown: tuple[Training | Unaccounted | Parts, ...] = ()

    def __post_init__(self) -> None:
        kinds = {(each.neighboring_relation, each.unit) for each in self.configurations}
        if len(kinds) != 1:
            raise ValueError(
                "selection: expected configurations of one neighboring_relation and one"
                f" unit, got {sorted(kinds)}"
            )

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """That of each configuration."""
        return self.configurations[0].neighboring_relation

    @property
    def unit(self) -> str:
        """That of each configuration."""
        return self.configurations[0].unit

    @property
    def reasons(self) -> tuple[str, ...]:
        """Those of all configurations, and of the trials shown."""
        every = (*self.configurations, *self.shown)
        return tuple(dict.fromkeys(reason for each in every for reason in each.reasons))

    is_nothing = False


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What one trial releases about each part of a data set, of which each unit is in
    one: `training` about a unit that is trained on, `held_out` about one of the
    validation or of the test part.

    `split` names the function that gives a unit its part. It must read that unit alone:
    then adding or removing a unit changes one part, and all together cost what the
    dearest part costs (parallel composition, McSherry 2009). The training releases may
    depend on what was released of the other parts, and the reverse.
    """

    kind: Literal["parts"] = "parts"
    split: str
    training: Training | Unaccounted
    held_out: Training

    def __post_init__(self) -> None:
        if not is_gaussian(self.held_out):
            raise ValueError("expected Gaussian releases of held-out records")
        if self.neighboring_relation != "add_or_remove_one":
            raise ValueError(
                "expected neighboring_relation add_or_remove_one of parts, got"
                f" {self.neighboring_relation}"
            )

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """That of the training."""
        return self.training.neighboring_relation

    @property
    def unit(self) -> str:
        """That of the training."""
        return self.training.unit

    @property
    def reasons(self) -> tuple[str, ...]:
        """Those of both."""
        return (*self.training.reasons, *self.held_out.reasons)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is released of any part."""
        return self.training.is_nothing and self.held_out.is_nothing


Release = Training | Unaccounted | BestOf | Parts


def is_gaussian(what: Training) -> bool:
    """Whether each of its steps is on all records."""
    return all(isinstance(step, Gaussian) for step in what.everything)


def by_part(every: Sequence[Release]) -> Iterator[tuple[Release, ...]]:
    """What several releases say of a unit, for each way in which it can be in parts:
    one choice for each split. Releases without parts are about every unit. Of more than
    8 splits all parts are added up, which is no less.

    >>> none, one = (Training(steps=steps, neighboring_relation="add_or_remove_one")
    ...              for steps in ((), (Gaussian(sigma=1.0),)))
    >>> two = [Parts(split=name, training=one, held_out=none) for name in "ab"]
    >>> [sum(not each.is_nothing for each in way) for way in by_part(two)]
    [2, 1, 1, 0]
    """
    splits = dict.fromkeys(each.split for each in every if isinstance(each, Parts))
    if len(splits) > _MOST_SPLITS:
        parts = [each for each in every if isinstance(each, Parts)]
        others = [each for each in every if not isinstance(each, Parts)]
        yield (*others, *(each for p in parts for each in (p.training, p.held_out)))
        return
    for trained in product((True, False), repeat=len(splits)):
        is_trained = dict(zip(splits, trained, strict=True))
        yield tuple(
            (each.training if is_trained[each.split] else each.held_out)
            if isinstance(each, Parts)
            else each
            for each in every
        )


@dataclass(frozen=True, kw_only=True)
class Start:
    """What the weights that a training starts from have released about the same records
    before: the `releases` of an earlier export, under its opaque id `source`. The
    training's epsilon is then that of the composition of both; two starts with equal
    ids are the same releases and count once.
    """

    source: str
    releases: tuple[Release, ...]


def with_noise_scaled(steps: tuple[S, ...], factor: float) -> tuple[S, ...]:
    """The steps with `factor` times their noise."""
    return tuple(replace(step, sigma=step.sigma * factor) for step in steps)


def release(
    mechanism: Mechanism, *, first: int = 0, last: int | None = None
) -> Training | Unaccounted | Parts:
    """The release of epochs `first` to `last` - 1 of a mechanism (default: of all).

    A part of an epoch is charged as a whole one; what was released before the first
    step (a noised histogram) with the first epoch. What weights start from was charged
    to the trial that made it. With noise on held-out figures an epoch also pays for its
    evaluation: one release about a validation record, and as much about a test record,
    whose one release spends what all epochs have paid (`held_out`).

    Raises: InvalidInput unless 0 <= first <= last <= epochs.
    """
    end = mechanism.epochs if last is None else last
    if not 0 <= first <= end <= mechanism.epochs:
        raise InvalidInput(
            f"expected 0 <= first <= last <= epochs ({mechanism.epochs}), got"
            f" first={first}, last={end}"
        )
    training = of_training(mechanism, first=first, last=end)
    if not mechanism.held_out_noise:
        return training
    evaluations = Gaussian(sigma=mechanism.held_out_noise, count=end - first)
    held_out = Training(
        steps=(evaluations,),
        neighboring_relation=training.neighboring_relation,
        unit=training.unit,
    )
    return Parts(split=mechanism.split, training=training, held_out=held_out)


def of_training(
    mechanism: Mechanism, *, first: int = 0, last: int | None = None
) -> Training | Unaccounted:
    """What epochs `first` to `last` - 1 (default: all) release about the records that
    are trained on.
    """
    end = mechanism.epochs if last is None else last
    relation, unit = mechanism.neighboring_relation, mechanism.unit
    if mechanism.unaccounted and end > first:
        return Unaccounted(
            reasons=mechanism.unaccounted, neighboring_relation=relation, unit=unit
        )
    epochs = range(first, end if mechanism.trains else first)
    histogram = []
    if (
        mechanism.is_private
        and mechanism.histogram_noise_multiplier
        and first == 0 < end
    ):
        histogram = [Gaussian(sigma=mechanism.effective_histogram_noise_multiplier)]
    return Training(
        steps=tuple(_epoch(mechanism, epoch) for epoch in epochs),
        beside=tuple(histogram),
        neighboring_relation=relation,
        unit=unit,
    )


def everything(mechanism: Mechanism) -> tuple[Release, ...]:
    """The release of a mechanism, and those of what its weights start from."""
    return (
        *(each for start in mechanism.starts for each in start.releases),
        release(mechanism),
    )


def once(starts: Iterable[Start]) -> dict[tuple[Start, int], Release]:
    """The releases of all `starts` of several trainings, each release once whatever
    number of trainings starts from it, under keys (start, place in its releases) that
    are equal for equal releases. An export that ten trials of a sweep read is composed
    once with them.
    """
    return {
        (start, n): each for start in starts for n, each in enumerate(start.releases)
    }


def _epoch(mechanism: Mechanism, epoch: int) -> Step:
    sigma, count = (
        mechanism.effective_noise_multiplier_at(epoch),
        mechanism.steps_in(epoch),
    )
    match mechanism.sampling:
        case "shuffle":
            return Gaussian(sigma=sigma)
        case "random_allocation":
            return Allocated(sigma=sigma, steps=count)
        case "poisson" if mechanism.sample_rate < 1:
            return Sampled(sigma=sigma, rate=mechanism.sample_rate, count=count)
        case _:  # every record in every step
            return Gaussian(sigma=sigma, count=count)


def _squares(sigma: float) -> bool:
    """Whether 1 / sigma^2 is a finite number."""
    return sigma > 0 and math.isfinite(sigma) and sigma * sigma > 1e-290

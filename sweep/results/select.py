"""Selection of the best trials: groups over seeds, their baseline, the Pareto front.
Pure.

Each corpus has its own best trial and front. Trials that differ by their seed only are
compared by their mean, so that no lucky seed wins; of equal ones the smaller epsilon
wins. A trial is chosen by its validation figure where known, because a choice by test
error makes the test error optimistic.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweep.store.sweeps import TrialRecord
from trainables import catalogue, figures
from trainables.config import objectives
from trainables.dp.accounting.rounding import format_epsilon
from trainables.errors import InvalidInput

PARETO = "pareto"
_CHOSEN_BY = {
    objectives.headline(task): objectives.quality(task) for task in objectives.tasks()
}
# Noise is rounded up at its fifth digit, and epsilon falls at most with its 50th power
# (`accountants._calibration`), so a trial that has spent all of its target is within
# this share.
_OF_TARGET = 0.005
# One measure, by its name in earlier code and now.
_SAME = {"mauve": "ngram_similarity", "ngram_similarity": "mauve"}


@dataclass(frozen=True, kw_only=True)
class MeanStd:
    """Mean, sample standard deviation (None for one value) and number of finite
    values.
    """

    mean: float
    std: float | None
    count: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """Finished trials that differ by their seed alone."""

    key: str
    records: tuple[TrialRecord, ...]

    @cached_property
    def is_baseline(self) -> bool:
        """Whether the space declared it a baseline."""
        return any(record.plan.baseline for record in self.records)

    def spread(self, metric: str) -> MeanStd | None:
        """The metric over the seeds; None where no trial has it. An infinite one stays
        infinite.
        """
        return _spread([v for r in self.records if (v := value(r, metric)) is not None])

    def cost(self, metric: str) -> float | None:
        """The mean over the seeds of `compared`, by which smaller is better."""
        found = _spread(
            [v for r in self.records if (v := compared(r, metric)) is not None]
        )
        return None if found is None else figures.cost(metric, found.mean)

    def of_seed(self, seed: int) -> TrialRecord:
        """The trial with this seed, or else the first."""
        alike = (record for record in self.records if record.plan.seed == seed)
        return next(alike, self.records[0])

    def middle(self, metric: str) -> TrialRecord:
        """The median trial by `metric`, of those that have it where any has."""
        known = [(v, r) for r in self.records if (v := compared(r, metric)) is not None]
        if not known:
            return self.records[(len(self.records) - 1) // 2]
        ordered = sorted(known, key=lambda pair: figures.cost(metric, pair[0]))
        return ordered[(len(known) - 1) // 2][1]


def _spread(values: Sequence[float]) -> MeanStd | None:
    if not values:
        return None
    if not all(math.isfinite(v) for v in values):
        return MeanStd(mean=math.inf, std=None, count=len(values))
    # `statistics.stdev` adds fractions: ten times as long for a result of the same
    # digits.
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return MeanStd(mean=statistics.fmean(values), std=std, count=len(values))


def compared(record: TrialRecord, metric: str) -> float | None:
    """The figure that decides between trials: as `value`, but the epsilon of a trial
    whose noise was calibrated is its `target_epsilon`, of which rounding leaves a part
    unspent. A trial that was stopped before has spent less, and keeps its own.
    """
    found = value(record, metric)
    if metric != figures.EPSILON or found is None:
        return found
    noise = record.plan.fields.get("privacy", {}).get("noise_multiplier")
    target = noise.get("target_epsilon") if isinstance(noise, dict) else None
    return target if target and abs(found - target) <= _OF_TARGET * target else found


def value(record: TrialRecord, metric: str) -> float | None:
    """A figure of a trial: a metric, a figure of its privacy card or the plan, or its
    seconds.
    """
    if metric == "seconds":
        return record.seconds
    for name in (metric, _SAME.get(metric)):
        if name in record.metrics:
            return record.metrics[name]
    if metric in (figures.EPSILON, figures.EPSILON_PAPER):
        spent: float | None = getattr(record.privacy, metric, None)
        planned: float | None = getattr(record.plan, metric)
        return planned if spent is None else spent
    return None


def epsilon_of(record: TrialRecord) -> float:
    """The sound epsilon of a trial; infinite where it has none."""
    found = value(record, figures.EPSILON)
    return math.inf if found is None else found


def groups(records: Sequence[TrialRecord]) -> list[Group]:
    """Finished trials by group, in the order of the first of each."""
    found: dict[str, list[TrialRecord]] = {}
    for record in records:
        if record.status.is_finished:
            found.setdefault(record.plan.group, []).append(record)
    return [Group(key=key, records=tuple(members)) for key, members in found.items()]


def by_corpus(records: Sequence[TrialRecord]) -> dict[str, list[TrialRecord]]:
    """The trials on each corpus by its name, in the order of the first of each."""
    found: dict[str, list[TrialRecord]] = {}
    for record in records:
        found.setdefault(record.plan.corpus, []).append(record)
    return found


def baselines(records: Sequence[TrialRecord]) -> list[Group]:
    """The groups that the space declared baselines."""
    return [group for group in groups(records) if group.is_baseline]


def model_of(record: TrialRecord) -> dict[str, object]:
    """The fields that say which model a trial trains; `sure` says which tokens teach
    it.
    """
    # By plain fields: parsing ten thousand configs takes seconds.
    return {**record.plan.fields.get("model", {}), "sure": None}


def nearest_baseline(record: TrialRecord, found: Sequence[Group]) -> Group | None:
    """The baseline that a trial is compared with: the first of `baselines_on`."""
    return next(iter(baselines_on(record, found)), None)


def baselines_on(record: TrialRecord, found: Sequence[Group]) -> list[Group]:
    """The baselines among `found` on a trial's data, those of its model first."""
    if not record.plan.is_config:
        return []
    data, model = record.plan.fields.get("data"), model_of(record)
    known = [g for g in found if g.is_baseline and not is_prior(g.records[0])]
    alike = [g for g in known if g.records[0].plan.fields.get("data") == data]
    return sorted(alike, key=lambda group: model_of(group.records[0]) != model)


def is_prior(record: TrialRecord) -> bool:
    """Whether the trial read no private record, so its model uses only public
    knowledge.
    """
    return catalogue.kind_of("engines", record.plan.engine) == "prior"


def priors(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The finished trials that read no private record."""
    return [
        record for record in records if is_prior(record) and record.status.is_finished
    ]


def interval_of(record: TrialRecord) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of a trial's test SER; None where it was not
    computed.
    """
    low, high = record.metrics.get("ser_low"), record.metrics.get("ser_high")
    if (
        low is None
        or high is None
        or record.plan.config.evaluation.bootstrap_samples == 0
    ):
        return None
    return low, high


def headline(records: Sequence[TrialRecord]) -> str:
    """The main quality metric of these trials, `ser`, or `mauve_states` if they generate
    text.
    """
    return objectives.headline(
        records[0].plan.task if records else objectives.default_task()
    )


def front(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The Pareto front of finished trials in the headline figure and epsilon, of each
    corpus its own. The median trial by the headline figure represents its group;
    infinity is the worst value, and a group without a figure is left out.
    """
    names = (headline(records), figures.EPSILON)
    best: set[str] = set()
    for alike in by_corpus(records).values():
        known: dict[tuple[float, float], list[Group]] = {}
        for group in groups(alike):
            quality, epsilon = map(group.cost, names)
            if quality is not None and epsilon is not None:
                known.setdefault((epsilon, quality), []).append(group)
        least: float | None = None
        # Less error than all with less epsilon; infinities are on it where nothing is
        # less.
        for point in sorted(known):
            if least is None or point[1] < least:
                best |= {group.middle(names[0]).plan.id for group in known[point]}
                least = point[1]
    return [record for record in records if record.plan.id in best]


def metric_of_choice(records: Sequence[TrialRecord], best: str | None = None) -> str:
    """The metric of a choice: the first in order that every candidate has. A trial
    without any figure of its task's quality is no candidate: it was stopped before it
    generated text.

    `best`: a headline figure or a metric; None or `pareto`: that of the task.

    Raises: InvalidInput where a candidate lacks it.
    """
    way = headline(records) if best in (None, PARETO) else str(best)
    names = _CHOSEN_BY.get(way, (way,))
    enough = [r for r in records if r.metrics.get(names[0], 0.0) is not None]
    if records and not enough:
        raise InvalidInput(
            f"expected a trial with {names[0]} to choose by, got none that generated"
            " enough texts to measure it; raise synthesis.num_generated, or choose by"
            " another metric"
        )
    records = enough
    measured = [
        record
        for record in records
        if any(
            value(record, name) is not None
            for name in objectives.quality(record.plan.task)
        )
    ] or records
    for name in names:
        if measured and all(value(record, name) is not None for record in measured):
            return name
    known = {
        name
        for record in records
        for name, v in record.metrics.items()
        if v is not None
    }
    if way not in _CHOSEN_BY and way not in known:
        raise InvalidInput(
            f"expected best to be one of {', '.join((*_CHOSEN_BY, PARETO))} or a metric"
            f" of the trials, got {way!r}"
        )
    raise InvalidInput(
        f"expected finished trials that all have one of {', '.join(names)} for"
        f" best={way}"
    )


def choose(
    records: Sequence[TrialRecord],
    *,
    best: str | None = None,
    epsilon_max: float | None = None,
) -> list[TrialRecord]:
    """The best trial (the front for `pareto`) of each corpus among `candidates`; `best`
    is as in `metric_of_choice`.

    Raises: InvalidInput as both.
    """
    found = candidates(records, epsilon_max=epsilon_max)
    return front(found) if best == PARETO else best_of_each(found, best)


def best_of_each(
    found: Sequence[TrialRecord], best: str | None = None
) -> list[TrialRecord]:
    """The best trial of each corpus; `best` and errors as in `metric_of_choice`."""
    metric = metric_of_choice(found, best)
    ranked = (rank_groups(groups(alike), metric) for alike in by_corpus(found).values())
    return [ordered[0].middle(metric) for ordered in ranked if ordered]


def choose_one(
    records: Sequence[TrialRecord], *, epsilon_max: float | None = None
) -> TrialRecord:
    """The best trial of a sweep on one corpus, by `choose`.

    Raises: InvalidInput as `choose`, and for trials on several corpora.
    """
    chosen = choose(records, epsilon_max=epsilon_max)
    if len(chosen) > 1:
        raise InvalidInput(
            f"expected trials on one corpus to choose the best, got"
            f" {', '.join(by_corpus(chosen))} (the best of each:"
            f" {', '.join(record.plan.id for record in chosen)})"
        )
    return chosen[0]


def finished(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """The finished trials that are no baseline."""
    return [r for r in records if r.status.is_finished and not r.plan.baseline]


def candidates(
    records: Sequence[TrialRecord], *, epsilon_max: float | None = None
) -> list[TrialRecord]:
    """The finished trials that are no baseline, with `epsilon_max` those whose sound
    epsilon is at most that.

    Raises: InvalidInput where there is none, naming the smallest epsilon.
    """
    found = finished(records)
    if not found:
        raise InvalidInput("no trial other than baselines has finished")
    allowed = [
        r
        for r in found
        # An infinite limit admits none whose epsilon is unknown.
        if epsilon_max is None
        or (value(r, figures.EPSILON) is not None and epsilon_of(r) <= epsilon_max)
    ]
    if not allowed:
        raise InvalidInput(
            f"no finished trial has epsilon <= {epsilon_max:g};"
            f" the smallest epsilon is {format_epsilon(min(map(epsilon_of, found)))}"
        )
    return allowed


def rank_groups(found: Sequence[Group], metric: str) -> list[Group]:
    """Groups by their mean of `metric`, the best first, of equal ones the smaller
    epsilon first; those without the metric are left out.
    """

    def place(group: Group) -> list[float]:
        costs = (group.cost(name) for name in (metric, figures.EPSILON))
        return [math.inf if cost is None else cost for cost in costs]

    return sorted(
        (group for group in found if group.cost(metric) is not None), key=place
    )

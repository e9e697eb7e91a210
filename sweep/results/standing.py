"""The trials that are statistically indistinguishable from the best one, on test records. Pure.

The best is chosen by validation. Differences are tested on the test figure, which no choice used.
Repeated configurations are compared by their means over seeds (Welch 1947), others by the overlap
of their intervals and, where these overlap and both were tested on the same records, by a paired
interval of their means, which is tighter. Means over seeds that differ must differ over the test
records too: seeds that draw nothing at random, such as those of full batches without noise, never
vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sweep.results import select
from sweep.results.select import Group
from sweep.store.sweeps import TrialRecord
from trainables import figures

SEEDS, PAIRED, OWN = "means over seeds", "paired over the test utterances", "their own intervals"
# The change of mean test SER from the first trials to the second, with its 95 % interval.
Pair = Callable[[Sequence[TrialRecord], Sequence[TrialRecord]], tuple[float, float, float] | None]
_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Standing:
    """`best` and the groups compared with it by the test figure `figure`: those that are
    indistinguishable from it, in order, and how many differ significantly. `ways` are the methods
    of comparison. `corpus`: the one of these trials, where the sweep has several.
    """

    metric: str
    figure: str
    best: Group
    indistinguishable: tuple[Group, ...]
    num_significant: int
    ways: tuple[str, ...]
    corpus: str | None = None

    def sentence(self) -> str:
        """A sentence; `sweep export --trial` accepts its ids."""
        record = self.best.middle(self.metric)
        spread = self.best.spread(self.metric)
        mean = float("nan") if spread is None else spread.mean
        where = "" if self.corpus is None else f" on {self.corpus}"
        text = f"best{where} by {self.metric} {mean:.4g}: {record.plan.id} {record.plan.name}"
        if not self.ways:
            return text
        word, how = figures.label(self.figure), f"(95 % each, {' or '.join(self.ways)})"
        if not self.indistinguishable:
            others = (
                "the other" if self.num_significant == 1 else f"all {self.num_significant} others"
            )
            return f"{text}; its test {word} differs significantly from that of {others} {how}"
        named = [group.records[0].plan.name for group in self.indistinguishable]
        shown = "; ".join(named[:_NAMED])
        if len(named) > _NAMED:
            shown += f"; and {len(named) - _NAMED} others"
        return f"{text}; by test {word} it is indistinguishable {how} from: {shown}"


def standings(records: Sequence[TrialRecord], *, pair: Pair = lambda a, b: None) -> list[Standing]:
    """The standing of the finished trials on each corpus, by `standing`.

    Raises: as `standing`.
    """
    parts = select.by_corpus(records)
    found = ((name, standing(alike, pair=pair)) for name, alike in parts.items())
    several = len(parts) > 1
    return [replace(each, corpus=name if several else None) for name, each in found if each]


def standing(records: Sequence[TrialRecord], *, pair: Pair = lambda a, b: None) -> Standing | None:
    """The standing of the finished trials that are no baseline, on one corpus; None without any.

    `pair` None for two groups: they were not tested on the same records.

    Raises: InvalidInput where there is no figure that all have (`select.metric_of_choice`).
    """
    finished = select.finished(records)
    if not finished:
        return None
    metric, main = select.metric_of_choice(finished), select.headline(finished)
    best, *others = select.rank_groups(select.groups(finished), metric)
    ways: list[str] = []
    indistinguishable: list[Group] = []
    for other in others:
        found = _is_significant(best, other, metric=metric, main=main, pair=pair)
        if found is None:
            continue
        is_significant, way = found
        ways.append(way)
        if not is_significant:
            indistinguishable.append(other)
    return Standing(
        metric=metric,
        figure=main,
        best=best,
        indistinguishable=tuple(indistinguishable),
        num_significant=len(ways) - len(indistinguishable),
        ways=tuple(way for way in (SEEDS, PAIRED, OWN) if way in ways),
    )


def interval_of(record: TrialRecord) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of a trial's test SER; None where it was not computed."""
    low, high = record.metrics.get("ser_low"), record.metrics.get("ser_high")
    if low is None or high is None or record.plan.config.evaluation.bootstrap_samples == 0:
        return None
    return low, high


def _is_significant(
    best: Group, other: Group, *, metric: str, main: str, pair: Pair
) -> tuple[bool, str] | None:
    """Whether the two differ at 95 %, and the method of comparison; None where none applies."""
    by_seeds = _welch(best, other, main)
    if by_seeds is False:
        return False, SEEDS
    by_records = _by_test_records(best, other, metric=metric, pair=pair) if main == "ser" else None
    if by_seeds and by_records != (False, PAIRED):
        return True, SEEDS
    return by_records


def _by_test_records(
    best: Group, other: Group, *, metric: str, pair: Pair
) -> tuple[bool, str] | None:
    """As `_is_significant`, by the intervals of each group's trial in the middle, or paired by the
    groups' means.
    """
    interval, other_interval = (interval_of(group.middle(metric)) for group in (best, other))
    known = interval is not None and other_interval is not None
    apart = (
        interval is not None
        and other_interval is not None
        and (interval[1] < other_interval[0] or other_interval[1] < interval[0])
    )
    if apart:
        return True, OWN  # a paired bootstrap, a tenth of a second, would give the same answer
    change = pair(best.records, other.records)
    if change is not None:
        return change[1] > 0 or change[2] < 0, PAIRED
    return (False, OWN) if known else None


def _welch(first: Group, second: Group, metric: str) -> bool | None:
    """Whether Welch's 95 % interval of the difference of means excludes 0; None without seeds."""
    one, two = first.spread(metric), second.spread(metric)
    if one is None or two is None or one.std is None or two.std is None:
        return None
    parts = [(one.std**2 / one.count, one.count - 1), (two.std**2 / two.count, two.count - 1)]
    return abs(one.mean - two.mean) > half_width(parts)


def half_width(parts: Sequence[tuple[float, int]]) -> float:
    """Half of the 95 % interval of a sum of independent means; each part is the variance of a mean
    and its degrees of freedom, n - 1. Student's t for one part, Welch's (1947) for several; 0 where
    nothing varies.

    >>> round(half_width([(1.0, 2)]), 3)
    4.303
    """
    # The quantile of `scipy.stats.t`, whose import and calls take most of the time of a table.
    from scipy.special import stdtrit

    total = sum(variance for variance, _ in parts)
    if not total:
        return 0.0
    freedom = 1 / sum((variance / total) ** 2 / each for variance, each in parts)
    return float(stdtrit(freedom, 0.975)) * math.sqrt(total)

"""Which axes of a sweep mattered, and which to search further.

A random forest (Breiman 2001) learns the metric of choice from the axes' values; the
importance of an axis is the accuracy lost when it is shuffled. Correlated axes share
theirs.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from search_spaces.expansion import rank
from search_spaces.paths import label, short
from sweep.results import select
from sweep.results.frame import CHANGE
from sweep.results.tables.axes import varied_paths
from sweep.store.sweeps import TrialRecord
from trainables.figures import EPSILON

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 6  # fewest configurations for an estimate
LEAST_EXPLAINED = 0.3  # R^2 out of bag below which importances mean nothing
_TREES = 100
_SHUFFLES = 10
_MOST = 500  # most configurations of a forest; a random subset of more
_ALIKE = 4  # fewest configurations of one variant and epsilon for advice
_TOGETHER = 0.7  # rank correlation from which two axes' effects cannot be told apart


@dataclass(frozen=True, kw_only=True)
class Importance:
    """`shares` of each varied axis, largest first, in [0, 1] with sum 1 (all 0 where no
    axis matters; none for too few trials or axes, or where the forest explains too
    little); `explained` is its out-of-bag R^2, at most 1; None without a forest.
    """

    shares: dict[str, float] = field(default_factory=dict)
    explained: float | None = None


def importance(records: Sequence[TrialRecord]) -> Importance:
    """The importance of every axis that varies among finished trials other than
    baselines, on one corpus.

    Raises: InvalidInput where these trials have no figure in common.
    """
    finished = select.finished(records)
    groups = select.groups(finished)
    if len(groups) < FEWEST:
        return Importance()
    metric = select.metric_of_choice(finished)
    spreads = [(group.records[0], group.spread(metric)) for group in groups]
    rows = [
        (one, s.mean) for one, s in spreads if s is not None and math.isfinite(s.mean)
    ]
    rows = random.Random(0).sample(rows, min(len(rows), _MOST))
    paths = varied_axes([one for one, _ in rows])
    if len(rows) < FEWEST or not paths:
        return Importance()
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    features = _features([one for one, _ in rows], paths)
    target = [mean for _, mean in rows]
    forest = RandomForestRegressor(
        n_estimators=_TREES, oob_score=True, random_state=0, n_jobs=1
    )
    forest.fit(features, target)
    explained = float(forest.oob_score_)
    if not explained >= LEAST_EXPLAINED:
        return Importance(explained=explained)
    lost = permutation_importance(
        forest, features, target, n_repeats=_SHUFFLES, random_state=0
    )
    raw = np.maximum(lost.importances_mean, 0.0)
    total = float(raw.sum())
    shares = {
        p: float(v) / total if total else 0.0 for p, v in zip(paths, raw, strict=True)
    }
    return Importance(
        shares=dict(sorted(shares.items(), key=lambda pair: -pair[1])),
        explained=explained,
    )


def advice(
    records: Sequence[TrialRecord],
    change: Callable[
        [Sequence[TrialRecord], Sequence[TrialRecord]], Mapping[str, float]
    ],
) -> list[str]:
    """The axes of which the best trial of a corpus has the smallest or largest value
    tried, in sentences, among trials of its variant and epsilon: so none that moves
    epsilon, and none that varies together with another. `change` is the paired change
    of SER of the first trials against the second (`frame.change_between`); where its
    interval does not lie below 0 against the best with another value, none is given.

    Raises: InvalidInput where the trials on a corpus have no figure in common.
    """
    parts, said = select.by_corpus(select.finished(records)), []
    for corpus, alike in parts.items():
        groups = select.groups(alike)
        ranked = select.rank_groups(groups, select.metric_of_choice(alike))
        best = ranked[0].records[0]
        ranked = [group for group in ranked if _is_kin(group.records[0], best)]
        kin = [group.records[0] for group in ranked]
        axes = varied_axes(kin) if len(kin) >= _ALIKE else []
        tied = together(kin, axes)
        on = f" on {corpus}" if len(parts) > 1 else ""
        for path in (path for path in axes if path not in tied):
            ranks = {r for each in kin if (r := rank(value_of(each, path))) is not None}
            mine = rank(value := value_of(best, path))
            if mine is None or len(ranks) < 2 or mine not in (min(ranks), max(ranks)):
                continue
            others = (g for g in ranked if value_of(g.records[0], path) != value)
            if (
                not change(ranked[0].records, next(others).records).get(
                    f"{CHANGE}_high", 0.0
                )
                < 0
            ):
                continue
            size, word = (
                ("smallest", "smaller") if mine == min(ranks) else ("largest", "larger")
            )
            said.append(
                f"{label(path)}: the best trial{on} has the {size} value tried,"
                f" {short(value)}: try {word}"
            )
    return said


def _is_kin(record: TrialRecord, best: TrialRecord) -> bool:
    epsilons = {select.compared(each, EPSILON) for each in (record, best)}
    return record.plan.variant == best.plan.variant and len(epsilons) == 1


def together(records: Sequence[TrialRecord], paths: Sequence[str]) -> set[str]:
    """The axes whose effect may be that of another of `paths`, with which they vary
    together.
    """
    ranks = _features(records, paths).rank(method="dense")
    are_related = ranks.corr().abs() >= _TOGETHER
    found: set[str] = set()
    for one, other in itertools.combinations(paths, 2):
        pairs = len(ranks[[one, other]].drop_duplicates())
        is_one_to_one = set(ranks[[one, other]].nunique()) == {pairs} and pairs < len(
            ranks
        )
        if is_one_to_one or are_related.loc[one, other]:
            found |= {one, other}
    return found


def varied_axes(records: Sequence[TrialRecord]) -> list[str]:
    """The axes, and `variant`, that have more than one value among records; seeds left
    out.
    """
    plans = [record.plan for record in records]
    paths = [path for path in varied_paths(plans) if path != "training.seed"]
    return [*(["variant"] if len({plan.variant for plan in plans}) > 1 else []), *paths]


def value_of(record: TrialRecord, path: str) -> Any:
    """A trial's value of an axis or its variant; None where it lacks the axis."""
    return record.plan.variant if path == "variant" else record.plan.values.get(path)


def _features(records: Sequence[TrialRecord], paths: Sequence[str]) -> pd.DataFrame:
    """A column for each axis: numbers unchanged (a forest uses only their order),
    others numbered by first appearance; missing values are below all.
    """
    import pandas as pd

    found = {}
    for path in paths:
        values = [value_of(record, path) for record in records]
        column = pd.Series([rank(value) for value in values], dtype=float)
        if column.count() < sum(value is not None for value in values):
            column = pd.Series(
                pd.factorize(np.array([repr(value) for value in values]))[0]
            )
        found[path] = column.fillna(column.min() - 1.0)
    return pd.DataFrame(found)

"""Importance of the axes of a sweep: permutation importance in a forest over finished trials.

A random forest (Breiman 2001) learns a metric from the axes' values; the importance of an axis is
the loss of accuracy when that axis is shuffled. The out-of-bag fit of the forest shows whether it
is reliable. Correlated axes share their importance. An epsilon is a function of what accountants
read, so no other axis has a share of it (`moves_epsilon`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search_spaces.domains import rank
from search_spaces.paths import set_path
from sweep.results import select
from sweep.results.select import Group
from sweep.store.plans import CORPUS
from sweep.store.sweeps import TrialRecord
from trainables import accountants
from trainables.config import TargetEpsilon, parse
from trainables.errors import InvalidInput
from trainables.figure_cache import FigureCache
from trainables.figures import EPSILON, EPSILON_PAPER
from trainables.privacy.from_config import build, with_noise

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]
FEWEST = 6  # fewest configurations for an estimate
_TREES = 200
_SHUFFLES = 20
_MOST = 500  # most configurations of a forest; a random subset of more
_MOST_VALUES = 8  # of an axis, to see whether an accountant reads it
_TOGETHER = 0.7  # rank correlation from which two axes' effects cannot be told apart


@dataclass(frozen=True, kw_only=True)
class Importance:
    """`shares` of each varied axis, largest first, in [0, 1] with sum 1 (all 0 where no axis
    matters); `explained` is the forest's out-of-bag R^2, at most 1, near or below 0 where the
    shares are unreliable. `tied` are axes that vary together with another one, so that the share of
    one may be that of the other.
    """

    metric: str
    shares: dict[str, float]
    explained: float
    num_configurations: int
    tied: tuple[str, ...] = ()


def importance(
    records: Sequence[TrialRecord], metric: str | None = None, *, kept: FigureCache | None = None
) -> Importance | None:
    """The importance of every axis that varies among finished trials other than baselines, for
    `metric` (default: that of the sweep's choice). None for too few trials or axes.

    `kept` answers for a table of settings and results that it has seen, because the library of
    the forest takes longer to import than a forest to grow.

    Raises: InvalidInput for a metric that none of them has.
    """
    finished = select.finished(records)
    if metric is not None:
        _require_known(metric, finished)
    groups = select.groups(finished)
    if len(groups) < FEWEST:
        return None
    name = metric or select.metric_of_choice(finished)
    rows = _rows(finished, name)
    if len(rows) > _MOST:
        chosen = np.random.default_rng(0).choice(len(rows), _MOST, replace=False)
        rows = [rows[place] for place in sorted(chosen)]
    corpora = {f"data.{key}" for key in CORPUS}
    kin = [g.records[0] for g, _ in rows]
    paths = [p for p in varied_axes(kin) if p not in corpora]
    if name in (EPSILON, EPSILON_PAPER):
        paths = [p for p in paths if moves_epsilon(kin, p, figure=name)]
    if len(rows) < FEWEST or not paths:
        return None
    columns = {p: _column([_value(group.records[0], p) for group, _ in rows]) for p in paths}
    target = np.asarray([mean for _, mean in rows])
    key = _key(name, columns, target)
    tied = tuple(sorted(together(kin, paths)))
    found = kept.find(key) if kept is not None else None
    if found is not None:
        return replace(Importance(**found), tied=tied)
    made = _by_forest(name, columns, target)
    if kept is not None:
        kept.keep(key, asdict(made))
    return replace(made, tied=tied)


def _require_known(metric: str, finished: Sequence[TrialRecord]) -> None:
    if finished and all(select.value(record, metric) is None for record in finished):
        known = sorted({name for r in finished for name, v in r.metrics.items() if v is not None})
        raise InvalidInput(
            f"expected metric to be a figure of the trials ({', '.join(known)}), got {metric!r}"
        )


def _rows(finished: Sequence[TrialRecord], metric: str) -> list[tuple[Group, float]]:
    """Each group with its mean of a metric, relative to the mean of its corpus, because the
    difficulty of a corpus is not an effect of the settings.
    """
    rows, parts = [], select.by_corpus(finished)
    for alike in parts.values():
        found = [(g, s.mean) for g in select.groups(alike) if (s := g.spread(metric)) is not None]
        known = [(group, mean) for group, mean in found if math.isfinite(mean)]
        several = len(parts) > 1 and known
        middle = math.fsum(mean for _, mean in known) / len(known) if several else 0.0
        rows += [(group, mean - middle) for group, mean in known]
    return rows


def _key(metric: str, columns: dict[str, Array], target: Array) -> str:
    """The hash of all that the importance depends on."""
    document = {
        "importance": [metric, list(columns), _TREES, _SHUFFLES],
        "libraries": [metadata.version(name) for name in ("scikit-learn", "numpy")],
    }
    values = np.column_stack([*columns.values(), target])
    return hashlib.sha256(json.dumps(document).encode() + values.tobytes()).hexdigest()


def _by_forest(metric: str, columns: dict[str, Array], target: Array) -> Importance:
    from sklearn.ensemble import RandomForestRegressor

    features = np.column_stack(list(columns.values()))
    forest = RandomForestRegressor(n_estimators=_TREES, oob_score=True, random_state=0, n_jobs=1)
    forest.fit(features, target)
    raw = np.maximum(_accuracy_lost(forest.predict, features, target), 0.0)
    total = float(raw.sum())
    shares = {p: float(v) / total if total else 0.0 for p, v in zip(columns, raw, strict=True)}
    return Importance(
        metric=metric,
        shares=dict(sorted(shares.items(), key=lambda pair: -pair[1])),
        explained=float(forest.oob_score_),
        num_configurations=len(target),
    )


def _accuracy_lost(predict: Predict, features: Array, target: Array) -> Array:
    """[axes]: the mean loss of R^2 when an axis is shuffled. All shuffles of an axis are predicted
    at once: `sklearn.inspection.permutation_importance`, which predicts each, takes most of a
    second of `sweep show`.
    """
    squares = float(np.square(target - target.mean()).sum())
    if squares == 0:
        return np.zeros(features.shape[1])
    random = np.random.default_rng(0)
    orders = np.concatenate([random.permutation(len(target)) for _ in range(_SHUFFLES)])
    errors = []  # of the forest itself, then of each shuffled axis
    for place in (None, *range(features.shape[1])):
        rows = features if place is None else np.tile(features, (_SHUFFLES, 1))
        if place is not None:
            rows[:, place] = features[orders, place]
        wrong = np.square(_predict_rows(predict, rows).reshape(-1, len(target)) - target)
        errors.append(wrong.sum(axis=1).mean() / squares)
    return np.asarray([error - errors[0] for error in errors[1:]])


def _predict_rows(predict: Predict, rows: Array) -> Array:
    """The prediction of each row; equal rows, which a shuffled grid has many of, are one."""
    different, places = np.unique(rows, axis=0, return_inverse=True)
    return predict(different)[places]


def varied_axes(records: Sequence[TrialRecord]) -> list[str]:
    """The axes, and `variant`, that have more than one value among records; seeds left out."""
    paths = list(dict.fromkeys(p for r in records for p in r.plan.values if p != "training.seed"))
    return [
        path
        for path in ("variant", *paths)
        if len({repr(_value(record, path)) for record in records}) > 1
    ]


def moves_epsilon(records: Sequence[TrialRecord], path: str, *, figure: str = EPSILON) -> bool:
    """Whether an accountant reads an axis: whether one value of it in the place of another, all
    else equal, changes what a trial releases, or the target that its noise is calibrated to.
    """
    of = {repr(v): r for r in records if (v := _value(r, path)) is not None}
    some = list(of.values())[:_MOST_VALUES]
    if path == "variant":
        return len({_accounted(r, {}, figure) for r in some} - {None}) > 1
    return any(
        len({_accounted(one, {path: _value(r, path)}, figure) for r in (one, other)} - {None}) > 1
        for one, other in itertools.pairwise((*some, *some[:1]))
    )


def _accounted(record: TrialRecord, changed: Mapping[str, Any], figure: str) -> str | None:
    """All that an epsilon of a trial with `changed` values depends on; None where it is none."""
    fields, number = record.plan.fields, record.plan.num_records
    for path, value in changed.items():
        fields = set_path(fields, path, value)
    try:
        config = parse(fields)
        target = config.privacy.noise_multiplier
        if isinstance(target, TargetEpsilon):
            if figure == EPSILON:
                return repr(target)
            config = with_noise(config, 1.0)
        mechanism = build(config, num_records=number or 0)
    except InvalidInput:
        return None
    return repr((target, accountants.values_of(mechanism)))


def together(records: Sequence[TrialRecord], paths: Sequence[str]) -> set[str]:
    """The axes of `paths` that vary together with another one, so that an effect of one may be
    that of the other.
    """
    columns = {p: _column([_value(record, p) for record in records]) for p in paths}
    ranks = {p: np.unique(column, return_inverse=True)[1] for p, column in columns.items()}
    found: set[str] = set()
    for (one, a), (other, b) in itertools.combinations(ranks.items(), 2):
        sizes = {len(set(a.tolist())), len(set(b.tolist()))}
        if 1 in sizes:
            continue
        pairs = len(set(zip(a.tolist(), b.tolist(), strict=True)))
        is_one_to_one = sizes == {pairs} and pairs < len(a)
        if is_one_to_one or abs(np.corrcoef(a, b)[0, 1]) >= _TOGETHER:
            found |= {one, other}
    return found


def _value(record: TrialRecord, path: str) -> Any:
    return record.plan.variant if path == "variant" else record.plan.values.get(path)


def _column(values: Sequence[Any]) -> Array:
    """Numbers unchanged (a forest uses only their order), others numbered by first appearance;
    missing values are below all.
    """
    ranks = [rank(value) for value in values]
    if all(r is not None or v is None for r, v in zip(ranks, values, strict=True)):
        known = [r for r in ranks if r is not None]
        return np.asarray([min(known) - 1.0 if r is None else r for r in ranks])
    order = {key: float(i) for i, key in enumerate(dict.fromkeys(repr(v) for v in values))}
    return np.asarray([order[repr(value)] for value in values])

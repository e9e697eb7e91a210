"""Advice on the next trials in sentences, from the finished trials of a sweep."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from search_spaces.domains import rank
from search_spaces.paths import set_path
from sweep.results import select
from sweep.results.importance import column, value_of, varied_axes
from sweep.results.standing import Standing
from sweep.store.plans import label, short
from sweep.store.sweeps import TrialRecord
from trainables import accountants
from trainables.config import TargetEpsilon, parse
from trainables.errors import InvalidInput
from trainables.privacy.from_config import build

_FEWEST = 4  # configurations of a variant
_MOST_VALUES = 8  # of an axis, to see whether an accountant reads it
_TOGETHER = 0.7  # rank correlation from which two axes' effects cannot be told apart


def advice(records: Sequence[TrialRecord], where: Sequence[Standing]) -> list[str]:
    """Sentences, the most useful first; empty where too few trials have finished. `where` are
    their standings.
    """
    parts, said = select.by_corpus(select.finished(records)), []
    for each in where:
        alike = parts[each.corpus] if each.corpus else next(iter(parts.values()))
        firsts = [group.records[0] for group in select.groups(alike)]
        said += _edges(each.best.records[0], firsts, on=f" on {each.corpus}" if each.corpus else "")
    for each in where:
        if each.indistinguishable:
            first, second = each.best.records[0], each.indistinguishable[0].records[0]
            said.append(
                f"{first.plan.name} and {second.plan.name} are indistinguishable"
                f" (95 %, {' or '.join(each.ways)}): repeat both over seeds (`repeats: 5`)"
            )
    return said


def _edges(best: TrialRecord, records: Sequence[TrialRecord], *, on: str) -> list[str]:
    """Advice where the best value of an axis is the largest or smallest tried, among records of its
    variant. An axis that varies together with another one gets none. `on` names the corpus.
    """
    kin = [record for record in records if record.plan.variant == best.plan.variant]
    if len(kin) < _FEWEST:
        return []
    axes, said = varied_axes(kin), []
    tied = together(kin, axes)
    for path in axes:
        ranks = [r for record in kin if (r := rank(record.plan.values.get(path))) is not None]
        mine = rank(best.plan.values.get(path))
        # A target epsilon is a budget and need not be raised.
        is_number = mine is not None and not isinstance(best.plan.values[path], dict)
        if path in tied or not is_number or len(set(ranks)) < 2:
            continue
        for end, size, word in (
            (min(ranks), "smallest", "smaller"),
            (max(ranks), "largest", "larger"),
        ):
            if mine == end:
                costs = moves_epsilon(kin, path)
                then = f"{word} may help, but changes epsilon" if costs else f"try {word}"
                value = short(best.plan.values[path])
                said.append(
                    f"{label(path)}: the best trial{on} has the {size} value tried, {value}: {then}"
                )
    return said


def moves_epsilon(records: Sequence[TrialRecord], path: str) -> bool:
    """Whether an accountant reads an axis: whether one value of it in the place of another, all
    else equal, changes what a trial releases, or the target that its noise is calibrated to.
    """
    of = {repr(v): r for r in records if (v := value_of(r, path)) is not None}
    some = list(of.values())[:_MOST_VALUES]
    return any(
        len({_accounted(one, path, value_of(r, path)) for r in (one, other)} - {None}) > 1
        for one, other in itertools.pairwise((*some, *some[:1]))
    )


def _accounted(record: TrialRecord, path: str, value: Any) -> str | None:
    """All that the epsilon of a trial with another value depends on; None where it is none."""
    try:
        config = parse(set_path(record.plan.fields, path, value))
        target = config.privacy.noise_multiplier
        if isinstance(target, TargetEpsilon):
            return repr(target)
        return repr(accountants.values_of(build(config, num_records=record.plan.num_records or 0)))
    except InvalidInput:
        return None


def together(records: Sequence[TrialRecord], paths: Sequence[str]) -> set[str]:
    """The axes of `paths` that vary together with another one, so that an effect of one may be
    that of the other.
    """
    columns = {p: column([value_of(record, p) for record in records]) for p in paths}
    ranks = {p: np.unique(values, return_inverse=True)[1] for p, values in columns.items()}
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

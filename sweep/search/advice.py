"""Advice on the next trials in sentences, from the finished trials of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from search_spaces.domains import rank
from sweep.results import select
from sweep.results.gap import USABLE
from sweep.results.importance import (
    Importance,
    importance,
    moves_epsilon,
    together,
    varied_axes,
)
from sweep.results.standing import Standing, standings
from sweep.store.plans import label, short
from sweep.store.state import TrialRecord, TrialStatus
from trainables import formats
from trainables.errors import InvalidInput
from trainables.figure_cache import FigureCache
from trainables.figures import EPSILON

_LITTLE, _MUCH = 0.05, 0.4  # shares of importance that are worth a sentence
_FEWEST = 4  # trials, of a variant or for each axis that a forest judges
_SAME = 1.01  # times an epsilon: what differs by less is equal


def answers(
    records: Sequence[TrialRecord], where: Sequence[Standing] | None = None, *, cache_dir: Path
) -> tuple[Importance | None, list[str]]:
    """Which axis mattered, and `advice`; (None, []) where no metric is common to all."""
    try:
        found = importance(records, kept=FigureCache(cache_dir))
        return found, advice(records, found, where)
    except InvalidInput:
        return None, []


def advice(
    records: Sequence[TrialRecord],
    found: Importance | None,
    where: Sequence[Standing] | None = None,
) -> list[str]:
    """Sentences, the most useful first; empty where too few trials have finished. `where` are
    their standings (`standing.standings`); None: by their own intervals.
    """
    finished = select.finished(records)
    if len(select.groups(finished)) < _FEWEST:
        return []
    metric, parts = select.metric_of_choice(finished), select.by_corpus(finished)
    ranked = {
        f" on {corpus}" * (len(parts) > 1): select.rank_groups(select.groups(alike), metric)
        for corpus, alike in parts.items()
    }
    said = [
        *(words for on, groups in ranked.items() if groups for words in _edges(groups, on=on)),
        *_weights(found, [group for groups in ranked.values() for group in groups]),
        *(words for each in where or standings(records) for words in _indistinguishable(each)),
    ]
    return list(dict.fromkeys(said))


def _edges(groups: Sequence[select.Group], *, on: str) -> list[str]:
    """Advice where the best value of an axis is the largest or smallest tried.
    Where epsilon grows that way, the sentence is about that price. `on` names the corpus.
    """
    best, said = groups[0].records[0], []
    kin = [g.records[0] for g in groups if g.records[0].plan.variant == best.plan.variant]
    axes = varied_axes(kin)
    if len(kin) < _FEWEST:
        return []
    tied, moving = together(kin, axes), [path for path in axes if moves_epsilon(kin, path)]
    for path in axes:
        if path in tied:
            continue
        ranks = [r for record in kin if (r := rank(record.plan.values.get(path))) is not None]
        # A target epsilon is a budget and need not be raised.
        mine = rank(best.plan.values.get(path))
        if mine is None or len(set(ranks)) < 2 or isinstance(best.plan.values[path], dict):
            continue
        value = short(best.plan.values[path])
        for end, size, word in (
            (min(ranks), "smallest", "smaller"),
            (max(ranks), "largest", "larger"),
        ):
            if mine == end:
                said.append(
                    f"{label(path)}: the best trial{on} has the {size} value tried, {value}:"
                    f" {_beyond(kin, path, end, word, moving=moving)}"
                )
    return said


def _beyond(
    kin: Sequence[TrialRecord], path: str, end: float, word: str, *, moving: Sequence[str]
) -> str:
    """Whether to go on beyond the end of an axis, which must not raise epsilon in silence."""
    if path not in moving:
        return f"try {word}"
    epsilons = _epsilons(kin, path, moving=moving)
    if end not in epsilons or len(epsilons) < 2:
        return f"{word} may help, but changes epsilon"
    near = min((other for other in epsilons if other != end), key=lambda other: abs(other - end))
    here, before = epsilons[end], epsilons[near]
    if here <= _SAME * before:
        return f"try {word}"
    prices = f"{formats.epsilon(before)} one value before, {formats.epsilon(here)} here"
    if here > USABLE:
        return f"{word} does not help: it raises epsilon further ({prices})"
    return f"{word} may help, but raises epsilon ({prices})"


def _epsilons(
    kin: Sequence[TrialRecord], path: str, *, moving: Sequence[str]
) -> dict[float, float]:
    """The epsilon of whole trials at each value of an axis, where all other axes that an
    accountant reads (`moving`) are as in the first trial, so that the difference is this axis's.
    """
    found: dict[float, float] = {}
    first, others = kin[0].plan, [other for other in moving if other != path]
    for record in kin:
        plan = record.plan
        if plan.variant != first.variant or record.status is not TrialStatus.DONE:
            continue
        place, epsilon = rank(plan.values.get(path)), select.compared(record, EPSILON)
        is_alike = all(plan.values.get(other) == first.values.get(other) for other in others)
        if is_alike and place is not None and epsilon is not None:
            found[place] = epsilon
    return found


def _weights(found: Importance | None, ranked: Sequence[select.Group]) -> list[str]:
    """`ranked` are the groups, the best first. No sentence from too few trials for the number of
    axes, nor about an axis that varies together with another.
    """
    if found is None or found.explained < 0.2:
        return []
    if found.num_configurations < _FEWEST * len(found.shares):
        return []
    records, said = [group.records[0] for group in ranked], []
    shares = {path: share for path, share in found.shares.items() if path not in found.tied}
    for path, share in shares.items():
        if share >= _MUCH:
            words = _refine(path, records)
            said.append(f"{label(path)} mattered most ({100 * share:.0f} %): {words}")
    idle = [label(path) for path, share in shares.items() if share < _LITTLE]
    if idle:
        said.append(f"{', '.join(idle)} hardly mattered: fix {'it' if len(idle) == 1 else 'them'}")
    return said


def _refine(path: str, records: Sequence[TrialRecord]) -> str:
    """What to do about an axis that matters; one that sets epsilon buys errors with privacy."""
    if not moves_epsilon(records, path):
        return "refine it"
    moving = [other for other in varied_axes(records) if moves_epsilon(records, other)]
    epsilons = _epsilons(records, path, moving=moving).values()
    ends = ""
    if len(epsilons) > 1 and max(epsilons) > _SAME * min(epsilons):
        ends = f" ({formats.epsilon(min(epsilons))} to {formats.epsilon(max(epsilons))})"
    return f"epsilon depends on it{ends}, so compare its values at equal epsilon"


def _indistinguishable(found: Standing) -> list[str]:
    """Advice to use more seeds where the best configurations are indistinguishable."""
    if not found.indistinguishable:
        return []
    first, second = found.best, found.indistinguishable[0]
    return [
        f"{first.records[0].plan.name} and {second.records[0].plan.name} are indistinguishable"
        f" (95 %, {' or '.join(found.ways)}): repeat both over seeds (`repeats: 5`)"
    ]

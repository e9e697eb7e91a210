"""Advice on the next trials in sentences, from the finished trials of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from search_spaces import strategies
from search_spaces.domains import branches, rank
from search_spaces.expansion import Point, points_at
from search_spaces.objectives import default_objectives
from search_spaces.space import SearchSpace
from sweep.results import select
from sweep.results.gap import USABLE
from sweep.results.importance import Importance, moves_epsilon, together, varied_axes
from sweep.results.standing import Standing, standings
from sweep.search import suggest as search
from sweep.search.source import observations_of
from sweep.store.plans import label, setting, short
from sweep.store.sweeps import TrialRecord
from trainables import formats
from trainables.errors import InvalidInput
from trainables.figures import EPSILON

_LITTLE, _MUCH = 0.05, 0.4  # shares of importance that are worth a sentence
_FEWEST = 4  # trials, of a variant or for each axis that a forest judges
_SAME = 1.01  # times an epsilon: what differs by less is equal
_MOST = 200  # most groups used for a proposal
EpsilonOf = Callable[[Point], float | None]


def advice(
    space: SearchSpace,
    records: Sequence[TrialRecord],
    found: Importance | None,
    where: Sequence[Standing] | None = None,
    *,
    epsilon_of: EpsilonOf = lambda point: None,
) -> list[str]:
    """Sentences, the most useful first; empty where too few trials have finished. `where` are
    their standings (`standing.standings`); None: by their own intervals. `epsilon_of` gives the
    epsilon of a point of the space; None: unknown.
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
    if len(ranked) > 1:  # an adaptive search has one corpus
        return list(dict.fromkeys(said))
    [groups] = ranked.values()
    proposal = _proposal(space, _history(groups) or records, tried=finished, epsilon_of=epsilon_of)
    return [*said, proposal] if proposal else said


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
        if plan.variant != first.variant or record.epochs_done < plan.epochs:
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


def _history(groups: Sequence[select.Group]) -> list[TrialRecord]:
    """A sample of very many ranked groups for a search, the best included; empty for few."""
    if len(groups) <= _MOST:
        return []
    kept = [groups[place * (len(groups) - 1) // (_MOST - 1)] for place in range(_MOST)]
    return [record for group in kept for record in group.records]


def _proposal(
    space: SearchSpace,
    records: Sequence[TrialRecord],
    *,
    tried: Sequence[TrialRecord],
    epsilon_of: EpsilonOf,
) -> str | None:
    """What an adaptive search that knows `records` would choose next in this space, with its
    epsilon; None where it is among them or `tried`, or the space refuses it.
    """
    update: dict[str, Any] = {
        "strategy": strategies.ADVISES,
        "num_startup": 1,
    }
    if not space.search.is_adaptive:
        update["objectives"] = default_objectives(space.task)
    searched = space.model_copy(update={"search": space.search.model_copy(update=update)})
    try:
        branches(searched)
    except InvalidInput:
        return None
    observations = observations_of(searched, records)
    if not any(one.state == "done" for one in observations):
        return None
    found = search.suggest(searched, observations, draw=len(observations))
    variant = found.variant.name
    point = next(points_at(searched, found.variant, found.values))
    if point.config is None or point.reason is not None:
        return None
    # Without the axes over fields that its entries lack.
    chosen = {path: value for path, value in found.values.items() if path in point.values}
    if any(one.variant == variant and one.values == chosen for one in observations) or any(
        record.plan.variant == variant
        and all(record.plan.values.get(path) == value for path, value in chosen.items())
        for record in tried
    ):
        return None
    values = ", ".join(setting(path, value) for path, value in chosen.items())
    sentence = f"TPE would try {variant}, {values}"
    epsilon = epsilon_of(point)
    if epsilon is None:
        return sentence
    alone = ", which guarantees little: it considers the error alone" if epsilon > USABLE else ""
    return f"{sentence}: epsilon {formats.epsilon(epsilon)}{alone}"

"""What an adaptive search knows: its trials as points of its space."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

from search_spaces.expansion import Branch, Point, branches, num_seeds, points_at
from search_spaces.space import SearchSpace
from sweep.results import select
from sweep.search.suggest import Observation, Suggestion
from sweep.store.plans import Plan, PlannedTrial, group_of
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import figures


def unrun(folder: SweepFolder, records: Sequence[TrialRecord]) -> list[str]:
    """Sentences with the reasons of trials that did not end, and of a search that ended early."""
    waiting = [r for r in records if r.status.is_pending and r.reason]
    found = [
        f"{number} of {len(records)} trials did not run to their end: {reason}."
        for reason, number in Counter(str(record.reason) for record in waiting).items()
    ]
    if (sentence := ended_early(folder)) is not None:
        found.append(sentence)
    return found


def ended_early(folder: SweepFolder) -> str | None:
    """Why an ended search chose fewer configurations than `num_samples`, in a sentence."""
    space, plan = folder.space(), folder.plan()
    requested, chosen = space.search.num_samples or 0, num_chosen(plan)
    if not space.search.is_adaptive or chosen >= requested or folder.is_running:
        return None
    limit = space.budget.trials
    if limit is not None and limit - len(plan.to_run) < num_seeds(space):
        why = f"budget.trials={limit} reached"
    else:
        refused = [t for t in plan.trials if not t.runs and t.refused_by == "budget"]
        why = str(refused[-1].reason) if refused else "no new point is left"
    return f"The search ended after {chosen} of {requested} configurations: {why}."


def observations_of(
    space: SearchSpace,
    records: Sequence[TrialRecord],
    *,
    known: dict[str, Observation | None] | None = None,
) -> list[Observation]:
    """The observations of a space's points, in order, one for all seeds of a configuration.

    `known` caches final observations, by the configuration's group.
    """
    groups: dict[str, list[TrialRecord]] = {}
    for record in records:
        if not record.plan.baseline:
            groups.setdefault(record.plan.group, []).append(record)
    observations = []
    found = branches(space)
    kept = {} if known is None else known
    for key, members in groups.items():
        if key in kept:
            observations.append(kept[key])
            continue
        place = _place(space, members[0], found)
        observations.append(None if place is None else _observation(space, place, members))
        if not any(r.status.is_pending or r.status is TrialStatus.FAILED for r in members):
            kept[key] = observations[-1]
    return [one for one in observations if one is not None]


def objectives_of(space: SearchSpace, record: TrialRecord) -> tuple[float, ...] | None:
    """A finished trial's objectives; None where one is missing."""
    found = []
    for name in space.search.objectives:
        value = select.compared(record, name)
        if value is None or math.isnan(value):
            return None
        # Samplers compare epsilons by size and cannot handle infinity: a bounded logarithm.
        if name == figures.EPSILON:
            value = min(math.log10(max(value, 1e-12)), 12.0)
        found.append(figures.cost(name, value))
    return tuple(found)


def _observation(
    space: SearchSpace, place: Suggestion, members: Sequence[TrialRecord]
) -> Observation:
    known = [
        objectives
        for record in members
        if record.status.is_finished and record.epochs_done
        if (objectives := objectives_of(space, record)) is not None
    ]
    if members[0].status is TrialStatus.REFUSED:
        return infeasible(place, members[0].plan, space)
    here = partial(Observation, variant=place.variant.name, values=place.values)
    if any(record.status.is_pending for record in members):
        return here(state="running")
    if not known:
        return here(state="failed")
    return here(state="done", objectives=tuple(map(fmean, zip(*known, strict=True))))


def infeasible(place: Suggestion, trial: PlannedTrial, space: SearchSpace) -> Observation:
    """The observation of a point whose trial is refused."""
    violation, limit = 1.0, space.budget.epsilon
    if trial.refused_by == "budget" and limit is not None and trial.epsilon_budget:
        # The excess over the budget, from which the sampler learns the direction.
        violation = min(max(math.log(trial.epsilon_budget / limit), 0.01), 30.0)
    return Observation(
        variant=place.variant.name, values=place.values, state="refused", violation=violation
    )


def _place(space: SearchSpace, record: TrialRecord, found: Sequence[Branch]) -> Suggestion | None:
    """The point of a record's trial among the `branches` of the space, which may have been changed
    since.
    """
    plan = record.plan
    for branch in found:
        if branch.variant.name != plan.variant:
            continue
        values = {path: plan.values[path] for path in branch.params(plan.values)}
        # The others differ by their seed.
        point = next(points_at(space, branch.variant, branch.lowest() | values))
        if _law(_fields(point)) != _law(plan.fields):
            continue
        # A field that the point's entries lack has no value.
        read = [path for path in branch.domains if path in point.values]
        if all(path in values for path in read):
            return Suggestion(variant=branch.variant, values={p: values[p] for p in read})
    return None


def _law(fields: dict[str, Any]) -> str:
    """Equal for configs that differ by their seed and their evaluation alone."""
    return group_of({**fields, "evaluation": None})


def _fields(point: Point) -> dict[str, Any]:
    return point.fields if point.config is None else point.config.model_dump(mode="json")


def group_at(point: Point) -> str:
    """The group of the trials at a point, whatever their seed."""
    return group_of(_fields(point))


def num_chosen(plan: Plan) -> int:
    """Number of configurations that a search has chosen and that run."""
    return len({trial.group for trial in plan.trials if trial.runs and not trial.baseline})

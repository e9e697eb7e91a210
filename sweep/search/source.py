"""What an adaptive search knows: its trials as points of its space."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from search_spaces.expansion import Point, branches, num_seeds
from search_spaces.space import SearchSpace
from sweep.results import select
from sweep.search.suggest import Observation
from sweep.store.plans import Plan, PlannedTrial, group_of
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import figures

START = "start_from"  # among the facts of a sweep: what its search knew at the start


@dataclass(frozen=True, kw_only=True)
class KnownPoint:
    """What an earlier sweep, by its name in the ledger, has observed at a point of a
    search's space: the mean of its `objectives` over seeds, smaller is better. `group`
    is that of the point's trials.
    """

    sweep: str
    group: str
    variant: str
    values: dict[str, Any]
    objectives: tuple[float, ...]

    @property
    def observation(self) -> Observation:
        """For the sampler of a search."""
        return Observation(
            variant=self.variant,
            values=self.values,
            state="done",
            objectives=self.objectives,
        )


_KNOWN = TypeAdapter(tuple[KnownPoint, ...])


def known_points(about: Mapping[str, Any]) -> tuple[KnownPoint, ...]:
    """The points that a search started from, by the facts of its sweep."""
    return _KNOWN.validate_python(about.get(START, ()))


def unrun(folder: SweepFolder, records: Sequence[TrialRecord]) -> list[str]:
    """Sentences with the reasons of trials that did not end, and of a search that ended
    early.
    """
    waiting = [r for r in records if r.status.is_pending and r.reason]
    found = [
        f"{number} of {len(records)} trials did not run to their end: {reason}."
        for reason, number in Counter(str(record.reason) for record in waiting).items()
    ]
    if (sentence := ended_early(folder)) is not None:
        found.append(sentence)
    return found


def ended_early(folder: SweepFolder) -> str | None:
    """Why an ended search chose fewer configurations than `num_samples`, in a
    sentence.
    """
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
    known: dict[str, Observation] | None = None,
) -> list[Observation]:
    """The observations of a space's points, in order, one for all seeds of a
    configuration.

    `known` caches final observations, by the configuration's group.
    """
    groups: dict[str, list[TrialRecord]] = {}
    for record in records:
        if not record.plan.baseline:
            groups.setdefault(record.plan.group, []).append(record)
    domains = {branch.variant.name: branch.domains for branch in branches(space)}
    kept = {} if known is None else known
    observations = []
    for key, members in groups.items():
        plan = members[0].plan
        axes = domains.get(plan.variant, {})
        values = {p: v for p, v in plan.values.items() if p in axes}
        # A sweep that was extended may have points outside of its space.
        if plan.variant not in domains or any(
            not axes[p].matching(v) for p, v in values.items()
        ):
            continue
        observations.append(kept.get(key) or _observation(space, values, members))
        if not any(
            r.status.is_pending or r.status is TrialStatus.FAILED for r in members
        ):
            kept[key] = observations[-1]
    return observations


def objectives_of(space: SearchSpace, record: TrialRecord) -> tuple[float, ...] | None:
    """A finished trial's objectives; None where one is missing."""
    found = []
    for name in space.search.objectives:
        value = select.compared(record, name)
        if value is None or math.isnan(value):
            return None
        # Samplers compare epsilons by size and cannot handle infinity: a bounded
        # logarithm.
        if name == figures.EPSILON:
            value = min(math.log10(max(value, 1e-12)), 12.0)
        found.append(figures.cost(name, value))
    return tuple(found)


def _observation(
    space: SearchSpace, values: dict[str, Any], members: Sequence[TrialRecord]
) -> Observation:
    plan = members[0].plan
    if members[0].status is TrialStatus.REFUSED:
        return infeasible(plan, values, space)
    here = partial(Observation, variant=plan.variant, values=values)
    if any(record.status.is_pending for record in members):
        return here(state="running")
    known = [
        objectives
        for record in members
        if record.status.is_finished and record.epochs_done
        if (objectives := objectives_of(space, record)) is not None
    ]
    if not known:
        return here(state="failed")
    return here(state="done", objectives=tuple(map(fmean, zip(*known, strict=True))))


def infeasible(
    trial: PlannedTrial, values: dict[str, Any], space: SearchSpace
) -> Observation:
    """The observation of a point whose trial is refused. Its violation is the logarithm
    of the excess over `budget.epsilon`, within 0.01 and 30, from which a sampler learns
    the direction; 1 where another limit refuses it.
    """
    violation, limit = 1.0, space.budget.epsilon
    if trial.refused_by == "budget" and limit is not None and trial.epsilon_budget:
        # The excess over the budget, from which the sampler learns the direction.
        violation = min(max(math.log(trial.epsilon_budget / limit), 0.01), 30.0)
    return Observation(
        variant=trial.variant, values=values, state="refused", violation=violation
    )


def group_at(point: Point) -> str:
    """The group of the trials at a point of the space, whatever their seed: as
    `PlannedTrial.group`.
    """
    config = point.config
    return group_of(point.fields if config is None else config.model_dump(mode="json"))


def num_chosen(plan: Plan) -> int:
    """The number of configurations that a search has chosen and that run. Seeds of one
    configuration count once, baselines not at all.
    """
    return len(
        {trial.group for trial in plan.trials if trial.runs and not trial.baseline}
    )

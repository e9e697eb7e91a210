"""A preview of an adaptive search: random points of its space with their figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from search_spaces.expansion import point_at
from search_spaces.space import SearchSpace
from sweep.planning.accounting import Accounting
from sweep.planning.plan import plan_points
from sweep.search import suggest as search
from sweep.search.source import earlier_records
from sweep.spending.filter import UNFILTERED
from sweep.store.plans import Plan, PlannedTrial
from trainables.config import TrialConfig
from trainables.figures import LEAKAGE
from trainables.privacy.rounding import format_epsilon

_NUM_PROBES = 12


def probes(
    space: SearchSpace,
    *,
    account: Accounting,
    seconds_of: Callable[[TrialConfig, int], float | None] = lambda config, steps: None,
) -> tuple[PlannedTrial, ...]:
    """Random points of the space, each with its figures or the reason why it is refused.

    Raises: InvalidInput for an invalid space.
    """
    points = []
    for draw in range(_NUM_PROBES):
        suggestion = search.suggest(space, (), draw=draw, at_random=True)
        points.append(point_at(space, suggestion.variant, suggestion.values)[0])
    trials = plan_points(space, points, account=account, seconds_of=seconds_of)
    return tuple({trial.id: trial for trial in trials}.values())


def notes(space: SearchSpace, plan: Plan, *, home: Path) -> list[str]:
    """Notes about the search, one sentence each.

    Raises: InvalidInput where a sweep to start from does not exist.
    """
    permitted = [trial for trial in plan.probes if trial.runs]
    refused = [trial for trial in plan.probes if not trial.runs]
    text = (
        f"{plan.to_choose} configurations are chosen while the sweep runs"
        f" ({space.search.strategy} on {', '.join(space.search.objectives)}); of"
        f" {len(plan.probes)} random points {len(permitted)} are permitted"
    )
    known = sorted(trial.epsilon for trial in permitted if trial.epsilon is not None)
    if known:
        text += f", of epsilon {format_epsilon(known[0])} to {format_epsilon(known[-1])}"
    if refused:
        text += f"; refused: {refused[0].reason}"
    found = [f"{text}."]
    if space.search.warm_start:
        earlier = earlier_records(space, home)
        found.append(f"{len(earlier)} finished trials of earlier sweeps are points of this space.")
    if LEAKAGE in space.search.objectives:
        found.append(
            "The search uses leakage, which is for the curator only: no epsilon covers its choice."
        )
    if space.budget.total is None:
        found.append(f"The sweep as a whole has no finite epsilon: {UNFILTERED}.")
    return found

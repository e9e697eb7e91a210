"""The plan of a sweep: its trials and the refused ones, with every epsilon, fixed before it starts.
Pure.

The accounting of a config and the duration of its trials are arguments, so that the plan needs
neither disk nor an accounting library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from search_spaces import constraints
from search_spaces.expansion import PLANNED_NAMES, Point, broken_constraints, expand
from search_spaces.space import SearchSpace
from sweep.planning.accounting import Accounted, Accounting
from sweep.store.plans import Plan, PlannedTrial, RefusedBy, group_of, setting
from trainables.config import TrialConfig
from trainables.errors import InvalidData, InvalidInput
from trainables.privacy.rounding import format_epsilon


def make(
    space: SearchSpace,
    *,
    account: Accounting,
    seconds_of: Callable[[TrialConfig, int], float | None] = lambda config, steps: None,
) -> Plan:
    """The plan of a space.

    `seconds_of(config, steps)` estimates a trial's duration.

    Raises: InvalidInput for an invalid space (see `expansion.expand`), InvalidData where a size
    must be read from unreadable data.
    """
    expansion = expand(space)
    trials = plan_points(space, expansion.points, account=account, seconds_of=seconds_of)
    return Plan(
        name=space.name,
        trials=_within_count(space, trials),
        merged=expansion.merged,
        to_choose=(space.search.num_samples or 0) if space.search.is_adaptive else 0,
    )


def plan_points(
    space: SearchSpace,
    points: Sequence[Point],
    *,
    account: Accounting,
    seconds_of: Callable[[TrialConfig, int], float | None],
) -> list[PlannedTrial]:
    """Each point as a trial. Where only baselines may run, each point is checked against every
    limit, so that the plan can name the one that refuses most.
    """
    planned = partial(plan_point, space, account=account, seconds_of=seconds_of)
    trials = [planned(point) for point in points]
    rest = [trial for trial in trials if not trial.baseline]
    if not rest or any(trial.runs for trial in rest):
        return trials
    return [planned(point, every_limit=True) for point in points]


def plan_point(
    space: SearchSpace,
    point: Point,
    *,
    account: Accounting,
    seconds_of: Callable[[TrialConfig, int], float | None] = lambda config, steps: None,
    every_limit: bool = False,
) -> PlannedTrial:
    """One point as a trial, with its figures, or with the reason why it is refused.

    A point that a constraint refuses is accounted for only with `every_limit`.
    """
    config, trial = point.config, _without_figures(point)
    if config is None:
        return replace(trial, reason=point.reason, refused_by="config")
    broken: list[tuple[RefusedBy, str]] = [("constraint", reason) for reason in point.broken]
    if broken and not every_limit:
        return _with_refusals(trial, broken)
    try:
        accounted = account(config)
        if _near_limit(space, trial, accounted=accounted):
            accounted = account(config, careful=True)
        budgeted = _budget_epsilon(space, config, accounted=accounted, account=account)
    except InvalidData:
        raise  # a damaged file is not the fault of a point
    except InvalidInput as problem:
        return _with_refusals(trial, [*broken, ("mechanism", str(problem))])
    summary = accounted.summary
    trial = replace(
        trial,
        steps=accounted.mechanism.steps,
        num_records=accounted.mechanism.num_records,
        noise_multiplier=summary.noise_multiplier,
        delta=summary.delta,
        epsilon=summary.epsilon,
        epsilon_paper=summary.epsilon_paper,
        epsilon_budget=budgeted,
        accountant=summary.accountant,
        warnings=summary.warnings,
        seconds=seconds_of(config, accounted.mechanism.steps),
    )
    broken += [("constraint", reason) for reason in _broken_constraints(space, trial)]
    over = _over_epsilon(space, trial)
    if over is not None:
        broken.append(("budget", over))
    return _with_refusals(trial, broken)


def _without_figures(point: Point) -> PlannedTrial:
    """A point as a trial, without the figures that accounting gives."""
    config = point.config
    fields = config.model_dump(mode="json") if config is not None else point.fields
    name = ", ".join((point.variant, *(setting(p, v) for p, v in point.values.items())))
    return PlannedTrial(
        id=config.id if config is not None else _digest(fields),
        name=name,
        variant=point.variant,
        baseline=point.baseline,
        values=point.values,
        origin=config or fields,
        config_id=config.id if config is not None else "",
        group=group_of(fields),
        engine=config.engine if config is not None else str(fields.get("engine", "")),
        seed=config.training.seed if config is not None else 0,
        epochs=config.training.epochs if config is not None else 0,
    )


def _with_refusals(trial: PlannedTrial, broken: Sequence[tuple[RefusedBy, str]]) -> PlannedTrial:
    """The trial, refused by the first limit that it breaks, where it breaks one."""
    if not broken:
        return trial
    kind, reason = broken[0]
    return replace(trial, reason=reason, refused_by=kind, broken=tuple(broken))


def _near_limit(space: SearchSpace, trial: PlannedTrial, *, accounted: Accounted) -> bool:
    """Whether a finer bound could bring the trial within its budget."""
    limit, summary = space.budget.epsilon, accounted.summary
    if limit is None or trial.is_exempt or summary.tight:
        return False
    return limit < summary.epsilon < 1.5 * limit


def _budget_epsilon(
    space: SearchSpace, config: TrialConfig, *, accounted: Accounted, account: Accounting
) -> float | None:
    """The figure compared with the budget; None where it is the paper's and undefined."""
    by = space.budget.accountant
    if by == "sound" or space.budget.epsilon is None or accounted.mechanism.is_free:
        return accounted.summary.epsilon
    if by == "paper":
        return accounted.summary.epsilon_paper
    return account(config, accountant=by).summary.epsilon


def _broken_constraints(space: SearchSpace, trial: PlannedTrial) -> list[str]:
    """The reasons of broken constraints over values that only the plan has."""
    planned = [c for c in space.constraints if constraints.names(c.require) & PLANNED_NAMES]
    known = {name: getattr(trial, name) for name in PLANNED_NAMES}
    return [constraint.why for constraint in broken_constraints(planned, {**trial.fields, **known})]


def _over_epsilon(space: SearchSpace, trial: PlannedTrial) -> str | None:
    """The reason why a trial's epsilon exceeds its budget, or None."""
    limit, by = space.budget.epsilon, space.budget.accountant
    if limit is None or trial.is_exempt:
        return None
    if trial.epsilon_budget is None:
        return f"epsilon_paper is not defined for {trial.engine}, budget.epsilon={limit:g}"
    if trial.epsilon_budget > limit:
        name = trial.accountant if by == "sound" else by
        spent = format_epsilon(trial.epsilon_budget)
        return f"epsilon {spent} ({name}) exceeds budget.epsilon={limit:g}"
    return None


def _within_count(space: SearchSpace, trials: list[PlannedTrial]) -> tuple[PlannedTrial, ...]:
    limit = space.budget.trials
    if limit is None:
        return tuple(trials)
    kept, running = [], 0
    for trial in trials:
        running += trial.runs
        if trial.runs and running > limit:
            trial = replace(trial, reason=f"budget.trials={limit} reached", refused_by="budget")
        kept.append(trial)
    return tuple(kept)


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]

"""The plan of a sweep: its trials and the refused ones, with every epsilon, fixed
before it starts. Pure but for the accounting.

The accounting of a config is an argument, so that the plan needs neither disk nor an
accounting library. A sentence says why there is nothing to run, or which field no trial
reads.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from search_spaces.expansion import (
    PLANNED_NAMES,
    Point,
    at_shares,
    branches,
    broken_constraint,
    expand,
    points_at,
)
from search_spaces.space import SearchSpace
from sweep.planning.accounting import Accounting
from sweep.planning.resources import workers_of
from sweep.spending.filter import UNFILTERED, looks_at_results
from sweep.store.plans import Plan, PlannedTrial
from trainables import catalogue
from trainables.config.mechanism import claims_privacy
from trainables.config.trial import TrialConfig
from trainables.dp.accounting.rounding import format_epsilon
from trainables.dp.seeding import generator
from trainables.errors import InvalidData, InvalidInput
from trainables.figures import LEAKAGE

_NUM_PROBES = 12  # random points of an adaptive search
_MOST_SAID = 3  # limits that refuse most


def make(space: SearchSpace, *, account: Accounting) -> Plan:
    """The plan of a space.

    Raises: InvalidInput for an invalid space (see `expansion.expand`), InvalidData
    where a size must be read from unreadable data.
    """
    expansion = expand(space)
    trials = [plan_point(space, point, account=account) for point in expansion.points]
    plan = Plan(
        name=space.name, trials=_within_count(space, trials), merged=expansion.merged
    )
    points = list(expansion.points)
    if space.search.is_adaptive:
        lowest = [
            p for b in branches(space) for p in points_at(space, b.variant, b.lowest())
        ]
        points += lowest
        logical = [
            int(p.config.training.num_workers) for p in lowest if p.config is not None
        ]
        plan = replace(
            plan,
            to_choose=space.search.num_samples or 0,
            workers=workers_of(math.gcd(*logical) or 1, space.resources, None),
        )
    if looks_at_results(space) and space.budget.total is not None:
        plan = replace(plan, filter_delta=_smallest_delta(points, account=account))
    return plan


def _smallest_delta(points: Sequence[Point], *, account: Accounting) -> float | None:
    """Of the points with a mechanism, exempt baselines aside; None without any."""
    found: dict[object, float] = {}
    for point in points:
        config = point.config
        if config is None or (point.baseline and not claims_privacy(config.engine)):
            continue
        given = config.privacy.delta, config.data.model_dump_json()
        if given not in found:
            with suppress(InvalidInput):
                found[given] = account(config).mechanism.delta
    return min(found.values(), default=None)


def plan_point(
    space: SearchSpace, point: Point, *, account: Accounting
) -> PlannedTrial:
    """One point as a trial, with its figures, or with the reason why it is refused. A
    point that a constraint refuses is not accounted for.
    """
    config = point.config
    trial = PlannedTrial(
        id=_digest(point.fields) if config is None else config.id,
        variant=point.variant,
        baseline=point.baseline,
        values=point.values,
        origin=config or point.fields,
    )
    if config is None:
        return replace(trial, reason=point.reason, refused_by="config")
    reason = point.reason or _unmeasured(space, point.baseline, config)
    if reason is not None:
        return replace(trial, reason=reason, refused_by="constraint")
    budget, limit = space.budget, None if trial.is_exempt else space.budget.epsilon
    by = "sound" if budget.epsilon is None else budget.accountant
    try:
        accounted = account(config)
        summary = accounted.summary
        # A finer bound may bring the trial within its budget.
        if (
            limit is not None
            and not summary.tight
            and limit < summary.epsilon < 1.5 * limit
        ):
            accounted = account(config, careful=True)
            summary = accounted.summary
        budgeted: float | None = summary.epsilon
        if by != "sound" and not accounted.mechanism.is_free:
            if by == "paper":  # whose figure is not defined for every engine
                budgeted = summary.epsilon_paper
            else:
                budgeted = account(config, accountant=by).summary.epsilon
    except InvalidData:
        raise  # a damaged file is not the fault of a point
    except InvalidInput as problem:
        return replace(trial, reason=str(problem), refused_by="mechanism")
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
    )
    read = trial.fields if point.later else {}
    known = read | {name: getattr(trial, name) for name in PLANNED_NAMES}
    if (broken := broken_constraint(point.later, known)) is not None:
        return replace(trial, reason=broken.why, refused_by="constraint")
    if limit is None or (budgeted is not None and budgeted <= limit):
        return trial
    if budgeted is None:
        over = (
            f"epsilon_paper is not defined for {trial.engine}, budget.epsilon={limit:g}"
        )
    else:
        name = trial.accountant if by == "sound" else by
        over = f"epsilon {format_epsilon(budgeted)} ({name}) exceeds budget.epsilon={limit:g}"
        paper = trial.epsilon_paper
        if by == "sound" and paper is not None and paper <= limit:
            over += (
                f"; the paper's formula has {format_epsilon(paper)}, which is no"
                " guarantee: budget.accountant=paper goes by it"
            )
    return replace(trial, reason=over, refused_by="budget")


def _unmeasured(space: SearchSpace, baseline: bool, config: TrialConfig) -> str | None:
    """Why a search by leakage could not observe a trial, or None."""
    asked = config.evaluation.attacks
    if baseline or asked is None or LEAKAGE not in space.search.objectives:
        return None
    from trainables.attacks import attacks_on_models  # which imports NumPy

    measuring = [
        name
        for name in sorted(attacks_on_models())
        if not catalogue.entry("attacks", name).NEEDS & {"references", "coins"}
    ]
    if {*measuring} & {*asked}:
        return None
    return (
        f"expected evaluation.attacks with {' or '.join(measuring)}, or none given,"
        f" with the objective leakage, got {list(asked)}"
    )


def _within_count(
    space: SearchSpace, trials: list[PlannedTrial]
) -> tuple[PlannedTrial, ...]:
    limit = space.budget.trials
    kept, running = [], 0
    for trial in trials:
        running += trial.runs
        if limit is not None and trial.runs and running > limit:
            trial = replace(
                trial, reason=f"budget.trials={limit} reached", refused_by="budget"
            )
        kept.append(trial)
    return tuple(kept)


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]


def probes(space: SearchSpace, *, account: Accounting) -> tuple[PlannedTrial, ...]:
    """Random points of the space, each with its figures or the reason why it is
    refused.

    Raises: InvalidInput for an invalid space.
    """
    found, random = branches(space), generator(space.search.seed, "probes")
    drawn = [at_shares(found, lambda name: random.random()) for _ in range(_NUM_PROBES)]
    points = [next(points_at(space, variant, values)) for variant, values in drawn]
    trials = [plan_point(space, point, account=account) for point in points]
    return tuple({trial.id: trial for trial in trials}.values())


def search_notes(space: SearchSpace, plan: Plan) -> list[str]:
    """Notes about the search, one sentence each."""
    permitted = [trial for trial in plan.probes if trial.runs]
    refused = [trial for trial in plan.probes if not trial.runs]
    text = (
        f"{plan.to_choose} configurations are chosen while the sweep runs"
        f" ({space.search.strategy} on {', '.join(space.search.objectives)}); of"
        f" {len(plan.probes)} random points {len(permitted)} are permitted"
    )
    known = sorted(trial.epsilon for trial in permitted if trial.epsilon is not None)
    if known:
        text += (
            f", of epsilon {format_epsilon(known[0])} to {format_epsilon(known[-1])}"
        )
    if refused:
        text += f"; refused: {refused[0].reason}"
    found = [f"{text}."]
    if LEAKAGE in space.search.objectives:
        found.append(
            "The search uses leakage, which is for the curator only: no epsilon covers"
            " its choice."
        )
    if space.budget.total is None:
        found.append(f"The sweep as a whole has no finite epsilon: {UNFILTERED}.")
    return found


def require_trials(plan: Plan) -> None:
    """Require a plan to have a trial other than baselines that runs, or of a sweep of
    baselines alone one of these.

    Raises: InvalidInput where every trial is refused, naming the limits that refuse
    most, and the smallest epsilon where a budget is among them.
    """
    # Baselines serve comparison; a sweep of baselines alone must be intended.
    points = [trial for trial in (*plan.trials, *plan.probes) if not trial.baseline]
    points = points or list(plan.trials)
    if any(trial.runs for trial in points):
        return
    # Each constraint is a limit of its own; the text of others has the figures of a
    # point.
    by_limit: dict[object, list[PlannedTrial]] = {}
    for trial in points:
        is_constraint = trial.refused_by == "constraint"
        limit = trial.reason if is_constraint else trial.refused_by
        by_limit.setdefault((is_constraint, limit), []).append(trial)
    most = sorted(by_limit.values(), key=len, reverse=True)[:_MOST_SAID]
    said = [f"{len(same)} by {same[0].refused_by}: {same[0].reason}" for same in most]
    known = [t.epsilon_budget for t in points if t.epsilon_budget is not None]
    if known and any(same[0].refused_by == "budget" for same in most):
        cheapest = format_epsilon(min(known))
        said.append(f"the smallest epsilon of any trial is {cheapest}")
    raise InvalidInput(
        f"all {len(points)} points other than baselines are refused, {'; '.join(said)}"
    )


def require_one_corpus(space: SearchSpace, plan: Plan) -> None:
    """Raises: InvalidInput where results are compared while the sweep runs, and its
    trials have several corpora, of which the easiest would win.
    """
    search = space.search
    if search.scheduler != "none":
        rule = f"search.scheduler={search.scheduler}"
    elif search.is_adaptive or search.is_private_selection:
        rule = f"search.strategy={search.strategy}"
    else:
        return
    compared = [
        t for t in (*plan.to_run, *plan.probes) if not t.baseline and t.is_config
    ]
    corpora = list(dict.fromkeys(trial.corpus for trial in compared))
    if len(corpora) > 1:
        raise InvalidInput(
            f"expected one corpus with {rule}, which compares trials, got"
            f" {', '.join(corpora)} (start a sweep for each)"
        )

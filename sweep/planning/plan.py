"""What a sweep will run and what it refuses, with every epsilon, before anything starts. Pure.

How a config is accounted for and how long its trials take are arguments, so that the plan itself
needs neither disk nor an accounting library.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

from search_spaces import constraints
from search_spaces.expansion import PLANNED_NAMES, Point, broken_of, expand
from search_spaces.space import SearchSpace
from sweep.store.trial_names import label, short
from trainables.config import TrialConfig
from trainables.errors import InvalidData, InvalidInput
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.summary import PrivacySummary, plain

_FIGURES = ("noise_multiplier", "delta", "epsilon", "epsilon_paper", "epsilon_budget")
_MOST_SAID = 3
RefusedBy = Literal["config", "constraint", "mechanism", "budget"]


@dataclass(frozen=True, kw_only=True)
class Accounted:
    """What accounting says of a config: its figures, and the mechanism they are of."""

    summary: PrivacySummary
    mechanism: Mechanism


class Account(Protocol):
    """Accounts for one config; `accountant` None means the tightest sound one. `careful` asks for
    a finer bound than planning thousands can afford.

    Raises: InvalidInput for a mechanism that is refused.
    """

    def __call__(self, config: TrialConfig, *, accountant: str | None, careful: bool) -> Accounted:
        """The figures of a config."""


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One trial of a plan. `reason` says why it is refused; None: it will run. `broken` has each
    limit that refuses it, with its reason, as far as they were asked.

    `group` is equal for trials that differ by their seed alone. `epsilon` is the sound figure
    (`accountant` names whose), `epsilon_budget` the one a budget goes by; of all epochs.
    `seconds` is an estimate, None where nothing like it has been measured.
    """

    id: str
    name: str
    variant: str
    baseline: bool
    values: dict[str, Any]
    config: dict[str, Any]
    group: str
    engine: str
    seed: int
    epochs: int
    steps: int | None = None
    num_records: int | None = None
    noise_multiplier: float | None = None
    delta: float | None = None
    epsilon: float | None = None
    epsilon_paper: float | None = None
    epsilon_budget: float | None = None
    accountant: str | None = None
    warnings: tuple[str, ...] = ()
    seconds: float | None = None
    reason: str | None = None
    refused_by: RefusedBy | None = None
    broken: tuple[tuple[RefusedBy, str], ...] = ()

    @property
    def runs(self) -> bool:
        """Whether the trial is not refused."""
        return self.reason is None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All trials of a sweep in order; `merged` counts points that were equal to an earlier one.

    An adaptive search adds its trials while it runs: `to_choose` configurations in all. `probes`
    are random points of its space that are judged and not run.
    """

    name: str
    trials: tuple[PlannedTrial, ...]
    merged: int = 0
    to_choose: int = 0
    probes: tuple[PlannedTrial, ...] = ()

    @property
    def to_run(self) -> tuple[PlannedTrial, ...]:
        """The trials that are not refused."""
        return tuple(trial for trial in self.trials if trial.runs)

    @property
    def refused(self) -> tuple[PlannedTrial, ...]:
        """The trials that are refused."""
        return tuple(trial for trial in self.trials if not trial.runs)

    @property
    def seconds(self) -> float | None:
        """Estimated seconds of all trials one after another; None where one is unknown."""
        known = [trial.seconds for trial in self.to_run]
        if self.to_choose:
            probes = [trial.seconds for trial in self.probes if trial.runs]
            if not probes or None in probes:
                return None
            mean = math.fsum(s for s in probes if s is not None) / len(probes)
            known.append(self.to_choose * mean)
        return None if None in known else math.fsum(s for s in known if s is not None)

    def require_trials(self) -> None:
        """Raises: InvalidInput where every trial is refused, naming what bites most."""
        # Baselines are there to compare with: a sweep of nothing else is only meant as one.
        asked = [trial for trial in (*self.trials, *self.probes) if not trial.baseline]
        asked = asked or list(self.trials)
        if any(trial.runs for trial in asked):
            return
        # A point may break several limits: each is counted in all that it refuses.
        reasons = [_limits(trial) for trial in asked]
        counts = Counter(limit for found in reasons for limit in found).most_common(_MOST_SAID)
        said = "; ".join(
            f"{count} by {limit[0]}: {next(found[limit] for found in reasons if limit in found)}"
            for limit, count in counts
        )
        if sum(count for _, count in counts) > len(asked):
            said += "; a point may break several"
        cheapest = min(
            (t.epsilon_budget for t in asked if t.epsilon_budget is not None),
            default=None,
        )
        hint = (
            f"; the smallest epsilon of any trial is {cheapest:.4g}"
            if any(kind == "budget" for (kind, _), _ in counts) and cheapest is not None
            else ""
        )
        raise InvalidInput(
            f"all {len(asked)} points that are no baseline are refused, {said}{hint}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; infinity is the string "inf"."""
        return {
            "name": self.name,
            "merged": self.merged,
            "num_trials": len(self.trials),
            "num_refused": len(self.refused),
            "to_choose": self.to_choose,
            "seconds": self.seconds,
            "trials": [plain(asdict(trial)) for trial in self.trials],
        }


def from_dict(fields: Any) -> Plan:
    """The plan that `to_dict` wrote.

    Raises: InvalidData for anything else.
    """
    try:
        return Plan(
            name=str(fields["name"]),
            merged=int(fields["merged"]),
            trials=tuple(trial_from(row) for row in fields["trials"]),
            to_choose=int(fields.get("to_choose", 0)),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidData(
            "expected a sweep's plan.json as it was written, with name, merged and trials;"
            " got one that is damaged"
        ) from None


def trial_from(row: Any) -> PlannedTrial:
    """The trial whose fields `to_dict` wrote.

    Raises: InvalidData for anything else.
    """
    try:
        read = {key: float(row[key]) for key in _FIGURES if isinstance(row[key], str)}
        broken = tuple((kind, str(reason)) for kind, reason in row.get("broken", ()))
        lists = {"warnings": tuple(row["warnings"]), "broken": broken}
        return PlannedTrial(**{**row, **read, **lists})
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidData("expected the fields of a planned trial, got damaged ones") from None


def make(
    space: SearchSpace,
    *,
    account: Account,
    seconds_of: Callable[[TrialConfig, int], float | None] = lambda config, steps: None,
) -> Plan:
    """The plan of a space.

    `seconds_of(config, steps)` estimates a trial's duration.

    Raises: InvalidInput for a space that is wrong in itself (see `expansion.expand`), InvalidData
    where a size must be read from data that cannot be.
    """
    expansion = expand(space)
    trials = plan_points(space, expansion.points, account=account, seconds_of=seconds_of)
    return Plan(
        name=space.name,
        trials=_within_count(space, trials),
        merged=expansion.merged,
        to_choose=(space.search.num_samples or 0) if space.search.is_adaptive else 0,
    )


def group_of(config: dict[str, Any]) -> str:
    """A name shared by configs that differ by `training.seed` alone."""
    training = {**config.get("training", {}), "seed": 0}
    canonical = json.dumps({**config, "training": training}, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def plan_points(
    space: SearchSpace,
    points: Sequence[Point],
    *,
    account: Account,
    seconds_of: Callable[[TrialConfig, int], float | None] = lambda config, steps: None,
) -> list[PlannedTrial]:
    """Each point as a trial. Where none may run but baselines, each is held against every limit,
    so that the plan can say which of them bites most.
    """
    judged = partial(plan_point, space, account=account, seconds_of=seconds_of)
    trials = [judged(point) for point in points]
    asked = [trial for trial in trials if not trial.baseline]
    if not asked or any(trial.runs for trial in asked):
        return trials
    return [judged(point, every_limit=True) for point in points]


def plan_point(
    space: SearchSpace,
    point: Point,
    *,
    account: Account,
    seconds_of: Callable[[TrialConfig, int], float | None] = lambda config, steps: None,
    every_limit: bool = False,
) -> PlannedTrial:
    """One point as a trial, with its figures, or with the reason why it is refused.

    A point that a constraint refuses is accounted for only with `every_limit`.
    """
    config = point.config
    fields = config.model_dump(mode="json") if config is not None else point.fields
    name = ", ".join((point.variant, *(f"{label(p)}={short(v)}" for p, v in point.values.items())))
    trial = PlannedTrial(
        id=config.id if config is not None else _digest(fields),
        name=name,
        variant=point.variant,
        baseline=point.baseline,
        values=point.values,
        config=fields,
        group=group_of(fields),
        engine=config.engine if config is not None else str(fields.get("engine", "")),
        seed=config.training.seed if config is not None else 0,
        epochs=config.training.epochs if config is not None else 0,
    )
    if config is None:
        return replace(trial, reason=point.reason, refused_by="config")
    broken: list[tuple[RefusedBy, str]] = [("constraint", reason) for reason in point.broken]
    if broken and not every_limit:
        return _refused(trial, broken)
    try:
        accounted = account(config, accountant=None, careful=False)
        if _near_limit(space, point, accounted=accounted):
            accounted = account(config, accountant=None, careful=True)
        budgeted = _budgeted(space, config, accounted=accounted, account=account)
    except InvalidData:
        raise  # a damaged file is no property of a point
    except InvalidInput as problem:
        return _refused(trial, [*broken, ("mechanism", str(problem))])
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
    return _refused(trial, broken)


def _refused(trial: PlannedTrial, broken: Sequence[tuple[RefusedBy, str]]) -> PlannedTrial:
    """The trial, refused by the first limit that it breaks, where it breaks one."""
    if not broken:
        return trial
    kind, reason = broken[0]
    return replace(trial, reason=reason, refused_by=kind, broken=tuple(broken))


def _near_limit(space: SearchSpace, point: Point, *, accounted: Accounted) -> bool:
    """Whether a finer bound could bring the trial within its budget."""
    limit, summary = space.budget.epsilon, accounted.summary
    if limit is None or point.baseline or summary.tight:
        return False
    return limit < summary.epsilon < 1.5 * limit


def _budgeted(
    space: SearchSpace, config: TrialConfig, *, accounted: Accounted, account: Account
) -> float | None:
    """The figure that the budget goes by; None where the paper's is asked for and undefined."""
    by = space.budget.accountant
    if by == "sound" or space.budget.epsilon is None:
        return accounted.summary.epsilon
    if by == "paper":
        return accounted.summary.epsilon_paper
    return account(config, accountant=by, careful=False).summary.epsilon


def _broken_constraints(space: SearchSpace, trial: PlannedTrial) -> list[str]:
    """The reasons of the broken constraints over what only the plan knows."""
    mine = [c for c in space.constraints if constraints.names(c.require) & PLANNED_NAMES]
    known = {name: getattr(trial, name) for name in PLANNED_NAMES}
    return [constraint.why for constraint in broken_of(mine, {**trial.config, **known})]


def _over_epsilon(space: SearchSpace, trial: PlannedTrial) -> str | None:
    """Why a trial's epsilon is too much, where it is."""
    limit, by = space.budget.epsilon, space.budget.accountant
    if limit is None or trial.baseline:
        return None
    if trial.epsilon_budget is None:
        return f"epsilon_paper is not defined for {trial.engine}, budget.epsilon={limit:g}"
    if trial.epsilon_budget > limit:
        name = trial.accountant if by == "sound" else by
        return f"epsilon {trial.epsilon_budget:.4g} ({name}) exceeds budget.epsilon={limit:g}"
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


def _limits(trial: PlannedTrial) -> dict[tuple[str, str], str]:
    """The limits that refuse a trial and their reasons: each constraint is one of its own."""
    found = trial.broken
    if trial.reason is not None and trial.reason not in (reason for _, reason in found):
        found = ((trial.refused_by or "config", trial.reason), *found)
    return {(kind, reason if kind == "constraint" else ""): reason for kind, reason in found}


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]

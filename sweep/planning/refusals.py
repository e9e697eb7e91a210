"""The reason why a plan has nothing to run, or would ignore what was asked for, in one sentence."""

from __future__ import annotations

from collections import Counter

from search_spaces.space import SearchSpace
from sweep.store.plans import Plan, PlannedTrial
from trainables.documents import quote
from trainables.errors import InvalidInput
from trainables.frozen import Frozen
from trainables.privacy.rounding import format_epsilon

_MOST_SAID = 3


def require_trials(plan: Plan) -> None:
    """Raises: InvalidInput where every trial is refused, naming the limits that refuse most."""
    # Baselines serve comparison; a sweep of baselines alone must be intended.
    points = [trial for trial in (*plan.trials, *plan.probes) if not trial.baseline]
    points = points or list(plan.trials)
    if any(trial.runs for trial in points):
        return
    # A point may break several limits; each limit counts all that it refuses.
    reasons = [_limits(trial) for trial in points]
    counts = Counter(limit for found in reasons for limit in found).most_common(_MOST_SAID)
    said = "; ".join(
        f"{count} by {limit[0]}: {next(found[limit] for found in reasons if limit in found)}"
        for limit, count in counts
    )
    if sum(count for _, count in counts) > len(points):
        said += "; a point may exceed several limits"
    cheapest = min(
        (t.epsilon_budget for t in points if t.epsilon_budget is not None),
        default=None,
    )
    hint = (
        f"; the smallest epsilon of any trial is {format_epsilon(cheapest)}"
        if any(kind == "budget" for (kind, _), _ in counts) and cheapest is not None
        else ""
    )
    raise InvalidInput(f"all {len(points)} points that are no baseline are refused, {said}{hint}")


def require_read_overrides(space: SearchSpace, plan: Plan) -> None:
    """Raises: InvalidInput for an overridden field that no trial reads because of its other fields,
    such as training.epochs where training.steps are counted.
    """
    configs = [trial.config for trial in (*plan.trials, *plan.probes) if trial.is_config]
    for path, value in space.override.items():
        section, _, rest = path.partition(".")
        field = rest.split(".")[0]
        if value is None or not field or not configs:
            continue
        if all(_is_unread(getattr(config, section), field) for config in configs):
            known = {config.training.steps for config in configs if path == "training.epochs"}
            why = ", which count training.steps" if known - {None} else ""
            raise InvalidInput(
                f"expected no override of {path}, which is not read with the other fields of any"
                f" trial{why}, got {quote(value)}"
            )


def _is_unread(part: object, field: str) -> bool:
    return isinstance(part, Frozen) and field in part.unread()


def _limits(trial: PlannedTrial) -> dict[tuple[str, str], str]:
    """The limits that refuse a trial, with reasons; each constraint is a separate limit."""
    found = trial.broken
    if trial.reason is not None and trial.reason not in (reason for _, reason in found):
        found = ((trial.refused_by or "config", trial.reason), *found)
    return {(kind, reason if kind == "constraint" else ""): reason for kind, reason in found}

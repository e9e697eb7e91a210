"""The reason why a plan has nothing to run, or would ignore a field, in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from search_spaces.foreign import own_fields
from search_spaces.paths import section_fields
from search_spaces.space import SearchSpace
from sweep.planning.fields import fields_below
from sweep.store.plans import Plan, PlannedTrial
from trainables.config import TrialConfig
from trainables.documents import quote
from trainables.errors import InvalidInput
from trainables.frozen import Frozen
from trainables.privacy.rounding import format_epsilon

_MOST_SAID = 3
_BECAUSE = {
    "training.expected_batch_size": ", whose batches are full (B = n)",
}


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
    shown = "; ".join(
        f"{count} by {limit[0]}: {next(found[limit] for found in reasons if limit in found)}"
        for limit, count in counts
    )
    if sum(count for _, count in counts) > len(points):
        shown += "; a point may exceed several limits"
    cheapest = min(
        (t.epsilon_budget for t in points if t.epsilon_budget is not None),
        default=None,
    )
    hint = (
        f"; the smallest epsilon of any trial is {format_epsilon(cheapest)}"
        if any(kind == "budget" for (kind, _), _ in counts) and cheapest is not None
        else ""
    )
    raise InvalidInput(f"all {len(points)} points other than baselines are refused, {shown}{hint}")


def require_read_fields(space: SearchSpace, plan: Plan) -> None:
    """Raises: InvalidInput for a field of the base, of an axis, of a variant or an overridden one
    that none of its trials reads because of its other fields, such as privacy.max_group_scale
    without group_scale; and for a dropped axis that is not a field.
    """
    every = [trial for trial in (*plan.trials, *plan.probes) if trial.is_config]
    _, alone = own_fields(space.base)  # not read where nothing else of the space is set either
    base = section_fields(space.base)
    _require_read(every, fixed={path: base[path] for path in alone}, axes=())
    _require_read(every, fixed=space.override, axes=space.axes)
    for variant in space.variants:
        own = [trial for trial in every if trial.variant == variant.name]
        of = f" of variant {variant.name}"
        _require_read(own, fixed=variant.fixed, axes=variant.axes, of=of)
        for path in () if variant.drop_axes == "all" else variant.drop_axes:
            if path not in space.axes:
                _require_field(path, variant=variant.name)


def require_one_corpus(space: SearchSpace, plan: Plan) -> None:
    """Raises: InvalidInput where results are compared while the sweep runs, and its trials have
    several corpora, of which the easiest would win.
    """
    search = space.search
    if search.scheduler != "none":
        rule = f"search.scheduler={search.scheduler}"
    elif search.is_adaptive or search.is_private_selection:
        rule = f"search.strategy={search.strategy}"
    else:
        return
    compared = [t for t in (*plan.to_run, *plan.probes) if not t.baseline and t.is_config]
    corpora = list(dict.fromkeys(trial.corpus for trial in compared))
    if len(corpora) > 1:
        raise InvalidInput(
            f"expected one corpus with {rule}, which compares trials, got {', '.join(corpora)}"
            " (start a sweep for each)"
        )


def _require_field(path: str, *, variant: str) -> None:
    try:
        fields_below(path)
    except InvalidInput as problem:
        raise InvalidInput(f"drop_axes of variant {variant}: {problem}") from None


def _require_read(
    trials: Sequence[PlannedTrial],
    *,
    fixed: Mapping[str, Any],
    axes: Iterable[str],
    of: str = "",
) -> None:
    configs = [trial.config for trial in trials]
    found = [(path, f"{path}{of}", f", got {quote(value)}") for path, value in fixed.items()]
    found += [(path, f"axis {path}{of}", "") for path in axes]
    for path, what, got in found:
        section, _, rest = path.partition(".")
        field = rest.split(".")[0]
        if not field or not configs or fixed.get(path, field) is None:
            continue
        if all(_is_unread(config, section, field) for config in configs):
            raise InvalidInput(
                f"expected no {what}, which no trial reads with its other fields"
                f"{_BECAUSE.get(path, '')}{got}"
            )


def _is_unread(config: TrialConfig, section: str, field: str) -> bool:
    if (section, field) == ("training", "expected_batch_size"):
        return config.privacy.sampling == "full"
    part = getattr(config, section)
    return isinstance(part, Frozen) and (
        field not in type(part).model_fields or field in part.unread(part.__dict__)
    )


def _limits(trial: PlannedTrial) -> dict[tuple[str, str], str]:
    """The limits that refuse a trial, with reasons; each constraint is a separate limit."""
    found = trial.broken
    if trial.reason is not None and trial.reason not in (reason for _, reason in found):
        found = ((trial.refused_by or "config", trial.reason), *found)
    return {(kind, reason if kind == "constraint" else ""): reason for kind, reason in found}

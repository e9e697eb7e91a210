"""From what a person typed to a plan: read the space, override, account, estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from search_spaces import space as spaces
from search_spaces.space import SearchSpace
from sweep import cost, search_probe, store
from sweep import plan as planning
from sweep.accounting import accounting, is_at_hand
from sweep.footprints import Footprints
from sweep.plan import Plan
from sweep.settings import Settings
from sweep.store import SweepFolder
from trainables.config import parse
from trainables.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A space, its plan, and sentences that a person should see."""

    space: SearchSpace
    plan: Plan
    notes: tuple[str, ...]


def prepare(
    source: str,
    *,
    overrides: dict[str, Any],
    settings: Settings,
    name: str | None = None,
) -> Prepared:
    """The plan of a space file, a bare config or a shipped space.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    space = spaces.read(source, overrides=overrides)
    if name is not None:
        space = spaces.renamed(space, name)
    return prepare_space(space, settings=settings)


def prepare_space(space: SearchSpace, *, settings: Settings) -> Prepared:
    """The plan of a space that has been read."""
    notes: list[str] = []
    if space.fallback and not _data_at_hand(space, settings):
        space = spaces.with_fallback(space)
        changed = ", ".join(f"{path}={value}" for path, value in space.fallback.items())
        notes.append(f"The data set of {space.name} is not at hand: {changed} instead.")
    plan = planning.make(
        space,
        account=accounting(settings),
        seconds_of=cost.estimator(settings.home, known=Footprints(settings).known),
    )
    if space.search.is_adaptive:
        plan = replace(plan, probes=search_probe.probes(space, account=accounting(settings)))
        notes += search_probe.notes(space, plan, home=settings.home)
    if plan.merged:
        notes.append(f"{plan.merged} points were equal to another one and are run once.")
    notes += sorted({f"{warning}." for trial in plan.to_run for warning in trial.warnings})
    return Prepared(space=space, plan=plan, notes=tuple(notes))


def extend(folder: SweepFolder, source: str, *, settings: Settings, accept: bool) -> None:
    """Put a changed space in the place of a sweep's; its finished trials are kept.

    Trials that have begun stay in the plan, also where the new space lacks them.

    Raises: InvalidInput that says what changed, unless `accept`; where the sweep is running.
    """
    prepared = prepare(source, overrides={}, settings=settings, name=folder.name)
    found = store.changes(folder.space(), prepared.space)
    if not found:
        return
    if not accept:
        raise InvalidInput(
            f"the space of {folder.name} has changed: {'; '.join(found)}"
            " (--accept-changes goes on with it)"
        )
    folder.require_at_rest()
    kept = {trial.id for trial in prepared.plan.trials}
    begun = [r for r in folder.records() if r.status not in ("planned", "refused")]
    lost = [record.plan for record in begun if record.plan.id not in kept]
    # What has run has spent: it stays in the plan, and so in the tables and in MLflow.
    trials = (*prepared.plan.trials, *lost)
    folder.replace_plan(prepared.space, replace(prepared.plan, trials=trials))


def _data_at_hand(space: SearchSpace, settings: Settings) -> bool:
    """Whether the base's data set can be read here; a damaged base is reported elsewhere."""
    data = {**space.base.get("data", {})}
    data |= {p.removeprefix("data."): v for p, v in space.override.items() if p[:5] == "data."}
    try:
        return is_at_hand(parse({"data": data}).data, settings)
    except InvalidInput:
        return True

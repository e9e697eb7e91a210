"""From the user's input to a plan: read the space, apply overrides, account, estimate."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from search_spaces import space as spaces
from search_spaces.paths import is_within, set_all
from search_spaces.space import SearchSpace
from sweep import phases
from sweep.planning import plan as planning
from sweep.planning.accounting import accounting
from sweep.planning.plan import require_one_corpus
from sweep.planning.plan_total import within_total
from sweep.settings import Settings
from sweep.spending.filter import filter_of, looks_at_results, stored_filter
from sweep.store import sweeps as store
from sweep.store.data_sets import is_at_hand
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.sweeps import SweepFolder
from trainables import catalogue
from trainables.config import parse
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from sweep.planning.selection_price import SelectionPrice

_NOTHING: Mapping[str, PlannedTrial] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A space, its plan, and notes for the user. `price` is a private selection's,
    whose plan holds the configurations that its trials are drawn from.
    """

    space: SearchSpace
    plan: Plan
    notes: tuple[str, ...]
    price: SelectionPrice | None = None


def read(
    source: str | Path | dict[str, Any],
    *,
    settings: Settings,
    overrides: dict[str, Any] | None = None,
    name: str | None = None,
) -> SearchSpace:
    """A space file, a bare config, a shipped space or the document itself, under `name` if given;
    with its fallback where its data set cannot be read here.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    phases.enter(phases.PLANNING)
    space = spaces.from_source(source, overrides=overrides)
    if space.fallback and not _data_at_hand(space, settings):
        space = spaces.with_fallback(space)
    return space if name is None else spaces.rename(space, name)


def prepare_space(
    space: SearchSpace,
    *,
    settings: Settings,
    begun: Mapping[str, PlannedTrial] = _NOTHING,
) -> Prepared:
    """The plan of a space that has been read. Trials that have `begun` have spent epsilon.
    They stay in the plan, and so in budgets, tables and MLflow, even if the space lacks or refuses
    them.
    """
    notes: list[str] = []
    account = accounting(settings)
    if taken := [f"{p}={v}" for p, v in space.fallback.items() if space.override.get(p) == v]:
        notes.append(f"The data set of {space.name} is not available: {', '.join(taken)} instead.")
    price = None
    if space.search.is_private_selection:
        from sweep.planning.selection_price import priced  # which imports the accounting library

        space, plan, price = priced(space, account=account)
        notes.append(price.sentence())
    else:
        plan = planning.make(space, account=account)
        if space.search.is_adaptive:
            plan = replace(plan, probes=planning.probes(space, account=account))
        require_one_corpus(space, plan)
        plan = _with_begun(plan, begun)
        if not space.search.is_adaptive:  # which checks the total before each choice
            plan = within_total(plan, space, account=account, begun=begun)
        else:
            filter_of(space, plan.filter_delta)
            notes += planning.search_notes(space, plan)
        if plan.merged:
            notes.append(f"{plan.merged} points are equal to another one and run once.")
    notes += sorted({f"{warning}." for trial in plan.to_run for warning in trial.warnings})
    notes += _of_models(plan)
    return Prepared(space=space, plan=plan, notes=tuple(notes), price=price)


def _of_models(plan: Plan) -> list[str]:
    """The notes of the models in the plan."""
    names = {str(trial.fields.get("model", {}).get("name")) for trial in plan.to_run}
    known = sorted(names & set(catalogue.names("models")))
    notes = (getattr(catalogue.entry("models", name), "NOTE", None) for name in known)
    return [note for note in notes if note is not None]


def extend(folder: SweepFolder, source: str, *, settings: Settings, accept: bool) -> None:
    """As `replace_space`, with the space of a file or a shipped one."""
    replace_space(
        folder, read(source, settings=settings, name=folder.name), settings=settings, accept=accept
    )


def replace_space(
    folder: SweepFolder, space: SearchSpace, *, settings: Settings, accept: bool
) -> None:
    """Replace the space of a sweep by a changed one; its finished trials are kept.

    Raises: InvalidInput that says what changed, unless `accept`; where the sweep is running; for a
    change of a setting that a privacy filter requires.
    """
    for search in (folder.space().search, space.search):
        if search.is_private_selection:
            raise InvalidInput(
                f"expected no --space with strategy {search.strategy}: its price was fixed before"
                " its first trial and holds for no other space (start a new sweep for another)"
            )
    ids = folder.state().begun
    begun = {t.id: t for t in folder.plan().trials if t.id in ids}
    prepared = prepare_space(space, settings=settings, begun=begun)
    found = store.changes(folder.space(), prepared.space)
    if not found:
        return
    if not accept:
        raise InvalidInput(
            f"the space of {folder.name} has changed: {'; '.join(found)}"
            " (--accept-changes continues with it)"
        )
    folder.require_at_rest()
    if begun:
        _require_same_choosing(folder.space(), prepared.space)
        _require_same_filter(folder, prepared)
        before = folder.about().get("changes", ())
        folder.note(changes=[*before, {"time": time.time(), "what": found}])
    folder.replace_plan(prepared.space, prepared.plan)


def _with_begun(plan: Plan, begun: Mapping[str, PlannedTrial]) -> Plan:
    # A refused row may lack figures; what was permitted by another accountant is checked again.
    kept = {i: replace(trial, epsilon_budget=None) for i, trial in begun.items()}
    planned = {trial.id for trial in plan.trials}
    trials = [kept.get(t.id, t) if not t.runs else t for t in plan.trials]
    lost = [trial for trial_id, trial in kept.items() if trial_id not in planned]
    return replace(plan, trials=(*trials, *lost))


def _require_same_choosing(old: SearchSpace, new: SearchSpace) -> None:
    """Raises: InvalidInput if trials of a sweep that depends on results have run, and the strategy,
    scheduler or filter has changed; the spend is known only under the old settings.
    """
    if not (looks_at_results(old) or looks_at_results(new)):
        return
    for name, before, after in (
        ("search.strategy", old.search.strategy, new.search.strategy),
        ("search.scheduler", old.search.scheduler, new.search.scheduler),
        ("search.objectives", old.search.objectives, new.search.objectives),
        ("budget.total", old.budget.total, new.budget.total),
    ):
        if before != after:
            raise InvalidInput(
                f"expected {name}={before} unchanged, got {after}: the privacy cost of an adaptive"
                " sweep is known only for rules that are fixed before its first trial (start a new"
                " sweep for others)"
            )


def _require_same_filter(folder: SweepFolder, new: Prepared) -> None:
    """Raises: InvalidInput where the filter of the changed space would hold at another delta."""
    kept, made = stored_filter(folder), filter_of(new.space, new.plan.filter_delta)
    if kept is not None and made is not None and made.delta != kept.delta:
        raise InvalidInput(
            f"expected privacy.delta={kept.delta:g}, for which the filter of budget.total was fixed"
            f" before the first trial, got {made.delta:g} (start a new sweep for another)"
        )


def _data_at_hand(space: SearchSpace, settings: Settings) -> bool:
    """Whether the base's data set can be read here; a damaged base is reported elsewhere."""
    given = [(path, value) for path, value in space.override.items() if is_within(path, "data")]
    fields = set_all({"data": space.base.get("data", {})}, given)
    try:
        return is_at_hand(parse(fields).data, settings)
    except InvalidInput:
        return True

"""From the user's input to a plan: read the space, apply overrides, account,
estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces import space as spaces
from search_spaces.paths import is_within, set_all, setting
from search_spaces.space import SearchSpace
from sweep import status
from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from sweep.planning.covering import noise_sentence, require_covered
from sweep.planning.plan import require_one_corpus
from sweep.planning.plan_total import within_total
from sweep.search.source import KnownPoint
from sweep.search.suggest import require_sampler
from sweep.settings import Settings
from sweep.spending.filter import filter_of
from sweep.store.data_sets import is_available
from sweep.store.plans import Plan
from trainables import formats
from trainables.config.trial import ModelConfig, parse
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from sweep.planning.selection_price import SelectionPrice


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A space, its plan, and notes for the user, one sentence each. `price` is that of
    a private selection, whose plan holds the configurations that its trials are drawn
    from; None for any other sweep. The space of a selection has the noise that was
    found for its target. `known` are the points that an adaptive search starts from.
    """

    space: SearchSpace
    plan: Plan
    notes: tuple[str, ...]
    price: SelectionPrice | None = None
    known: tuple[KnownPoint, ...] = ()


def read(
    source: str | Path | dict[str, Any],
    *,
    settings: Settings,
    overrides: dict[str, Any] | None = None,
    name: str | None = None,
) -> SearchSpace:
    """A space file, a bare config, a shipped space or the document itself, under `name`
    if given; with its fallback where its data set cannot be read here.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    status.enter(status.PLANNING)
    space = spaces.read(source, overrides=overrides)
    if space.fallback and not _data_at_hand(space, settings):
        space = spaces.with_fallback(space)
    return space if name is None else spaces.rename(space, name)


def prepare_space(space: SearchSpace, *, settings: Settings) -> Prepared:
    """The plan of a space that has been read, with notes for the user. Nothing is
    trained, charged or created; figures that are computed are kept in the cache.

    Raises: InvalidInput for what no trial could run, InvalidData for data that cannot
    be read.
    """
    notes = replaced_axes(space)
    account = Accounting(settings)
    if taken := [
        f"{p}={v}" for p, v in space.fallback.items() if space.override.get(p) == v
    ]:
        notes.append(
            f"The data set of {space.name} is not available: {', '.join(taken)}"
            f" instead."
        )
    price, known = None, tuple[KnownPoint, ...]()
    if space.search.is_private_selection:
        # Which imports the accounting library.
        from sweep.planning.selection_price import priced

        space, plan, price = priced(space, account=account)
        notes.append(price.sentence())
    else:
        if space.search.is_adaptive:
            require_sampler(space.search)
        plan = planning.make(space, account=account)
        if space.search.is_adaptive:  # which checks the total before each choice
            plan = replace(plan, probes=planning.probes(space, account=account))
            require_one_corpus(space, plan)
            filter_of(space, plan.filter_delta)
            if space.search.start_from:
                # Which imports the ledger.
                from sweep.planning.start_from import points_to_start_from

                known = points_to_start_from(space, plan, account)
            notes += [*planning.search_notes(space, plan), *start_notes(space, known)]
        else:
            require_one_corpus(space, plan)
            plan = within_total(plan, space, account=account)
        require_covered(space, plan)
        notes += filter(None, [noise_sentence(plan, account=account)])
        if plan.merged:
            notes.append(f"{plan.merged} points are equal to another one and run once.")
    notes += notes_of(plan)
    return Prepared(
        space=space, plan=plan, notes=tuple(notes), price=price, known=known
    )


def start_notes(space: SearchSpace, known: Sequence[KnownPoint]) -> list[str]:
    """What a search starts from, in a sentence."""
    if not known:
        return []
    number = formats.count(len(known), "configuration")
    return [f"The search starts from {number} of {', '.join(space.search.start_from)}."]


def notes_of(plan: Plan) -> list[str]:
    """What the trials of a plan warn of, and what they lack, a sentence each."""
    warnings = {f"{words}." for trial in plan.to_run for words in trial.warnings}
    models = [trial.config.model for trial in plan.to_run]
    about = {model.note for model in models if model.note}
    return [*sorted(warnings), *sorted(about), *missing(models)]


def replaced_axes(space: SearchSpace) -> list[str]:
    """The axes that a value for every trial (`override`) replaces, a sentence each."""
    every = [space.axes, *(variant.axes for variant in space.variants)]
    gone = {path: axis for axes in every for path, axis in axes.items()}
    return [
        f"{setting(given, value)} replaces the axis {path}"
        f" ({formats.count(len(axis.values), 'value') if axis.values else 'a range'})."
        for path, axis in gone.items()
        for given, value in space.override.items()
        if is_within(path, given)
    ]


def missing(models: Iterable[ModelConfig]) -> list[str]:
    """What is not installed that these models need, a sentence each."""
    found = set()
    for model in {model.model_dump_json(): model for model in models}.values():
        if (sentence := model.missing()) is not None:
            found.add(f"{sentence}.")
    return sorted(found)


def _data_at_hand(space: SearchSpace, settings: Settings) -> bool:
    """Whether the base's data set can be read here; a damaged base is reported
    elsewhere.
    """
    given = [
        (path, value)
        for path, value in space.override.items()
        if is_within(path, "data")
    ]
    fields = set_all({"data": space.base.get("data", {})}, given)
    try:
        return is_available(parse(fields).data, settings)
    except InvalidInput:
        return True

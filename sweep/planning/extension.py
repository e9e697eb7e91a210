"""Plans more points for a sweep that is finished or stopped.

Nothing is written. What the sweep has planned stays; a point that it has is not added
again. A new point that another sweep of the home has trained, on the same records and
with the same privacy, is taken over from there (`sweep.spending.taken_over`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from search_spaces.parts import Budget
from search_spaces.search import Search
from search_spaces.space import SearchSpace
from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from sweep.planning.earlier_bounds import affected
from sweep.planning.plan import require_one_corpus
from sweep.planning.prepare import Prepared, notes_of, replaced_axes, start_notes
from sweep.planning.pricing import price, with_certified_noise
from sweep.planning.start_from import points_to_start_from
from sweep.search.source import START, KnownPoint, num_chosen
from sweep.search.suggest import require_sampler
from sweep.spending.filter import EXTENDED, STORED, Extended, extended_filter
from sweep.spending.gate import SpendGate, open_gate
from sweep.spending.ledger import Entry, PricedTrial
from sweep.spending.paid import require_paid, require_whole_ledger, uncharged_epochs
from sweep.spending.taken_over import entries_of, of_trial
from sweep.store import manifest
from sweep.store import sweeps as store
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.state import EpochRow, Result, TrialStatus
from sweep.store.sweeps import SweepFolder
from trainables import formats
from trainables.dp.accounting.releases import Parts, Release, release
from trainables.errors import InvalidData, InvalidInput

_MAY_CHANGE = {"num_samples", "start_from"}  # of a search


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A finished trial of another sweep: the `folder` of its files, what its log has of
    it, and what it was charged. `sweep` trained it, by its name in the ledger.
    """

    sweep: str
    folder: Path
    epochs: tuple[EpochRow, ...]
    result: Result
    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """The name that the sweep had."""
        return self.sweep.rpartition("@")[0]

    @property
    def has_repeated(self) -> bool:
        """Whether an epoch was charged to more than one attempt."""
        epochs = [
            e for each in self.entries for e in range(each.first_epoch, each.epochs)
        ]
        return len(set(epochs)) < len(epochs)


@dataclass(frozen=True, kw_only=True)
class Extension:
    """The space and the plan of a sweep after points were added to it. `added` are
    those that it trains, `taken` those that others have trained, by their ids; `facts`
    are added to those of the sweep, whose plan was `before`.
    """

    prepared: Prepared
    before: Plan
    added: tuple[PlannedTrial, ...]
    taken: Mapping[str, Taken]
    facts: Mapping[str, Any]


def plan_extension(
    folder: SweepFolder, space: SearchSpace, account: Accounting, *, reuse: bool = True
) -> Extension:
    """The extension of a sweep by the points of `space`. With `reuse` trials of other
    sweeps are taken over.

    Raises: InvalidInput for a sweep that runs or is a private selection, a space of
        another corpus, delta or search, a smaller total, no point that is new or fits;
        InvalidData for a ledger, log or files of a trial that were changed.
    """
    _require_extendable(folder, space)
    ledger = account.ledger
    require_whole_ledger(
        ledger, store.sweeps(folder.path.parent), budget_total=folder.budget_total
    )
    require_paid(folder, ledger)
    before, entries = folder.plan(), entries_of(folder, ledger)
    fresh = planning.make(space, account=account)
    known_points: Sequence[KnownPoint] = ()
    if space.search.is_adaptive:
        require_sampler(space.search)
        fresh = replace(fresh, probes=planning.probes(space, account=account))
        if space.search.start_from != folder.space().search.start_from:
            known_points = points_to_start_from(space, fresh, account)
    own = {trial.id: trial for trial in before.trials}
    begun = folder.state().begun | {entry.trial for entry in entries}
    new = [
        trial
        for trial in fresh.trials
        if trial.id not in own or not (own[trial.id].runs or trial.id in begun)
    ]
    _require_same(folder, before, [*new, *fresh.probes], entries, account)
    total_filter = extended_filter(
        folder,
        space.budget.total,
        delta=before.filter_delta or _smallest_delta(before),
        has_spent=bool(entries),
    )
    certified = with_certified_noise(Plan(name="", trials=tuple(new)), account).trials
    priced = price(certified, account)
    found = dict(_found(folder, priced, account, space.budget)) if reuse else {}
    pending = (t for t in before.to_run if not folder.state().trial(t.id).is_over)
    gate = open_gate(
        folder,
        price([*pending], account),
        ledger=ledger,
        total_filter=total_filter,
        budget=space.budget,
    )
    admitted = _admitted(priced, found, gate, num_before=len(before.to_run))
    decided = {trial.id: trial for trial in (*new, *admitted)}
    taken = {t.id: found[t.id] for t in admitted if t.runs and t.id in found}
    added = tuple(t for t in admitted if t.runs and t.id not in taken)
    plan = replace(
        fresh,
        name=folder.name,
        trials=(*({**own, **decided}).values(),),
        filter_delta=before.filter_delta or fresh.filter_delta,
    )
    require_one_corpus(space, plan)
    num_known = len(fresh.trials) - len(new)
    number = len(added) + max(0, plan.to_choose - num_chosen(before))
    refused = [trial for trial in decided.values() if not trial.runs]
    if not (number or taken):
        raise _nothing_new(folder, refused, num_known)
    facts: dict[str, Any] = {}
    if known_points:
        facts[START] = [asdict(each) for each in known_points]
    total, created = folder.space().budget.total, folder.made().created
    is_raised = bool(entries) and total != space.budget.total
    if entries or taken or STORED in folder.about():
        extended = Extended(
            at=time.time(),
            added=number + len(taken),
            taken=len(taken),
            is_raised=is_raised,
            raised_from=total if is_raised else None,
            is_total_late=space.budget.total is not None
            and any(e.at < created for t in taken.values() for e in t.entries),
        )
        facts[EXTENDED] = [*folder.about().get(EXTENDED, ()), asdict(extended)]
        if total_filter is not None:
            facts[STORED] = asdict(total_filter)
    notes = [
        *replaced_axes(space),
        f"{formats.count(number, 'trial')} to train, {len(taken)} taken over;"
        f" {formats.count(num_known, 'point')} of the space"
        f" {'is' if num_known == 1 else 'are'} in {folder.name} already.",
        *_origins(folder, taken),
    ]
    if refused:
        notes.append(
            f"{formats.count(len(refused), 'point')} refused: {refused[0].reason}."
        )
    if is_raised:
        notes.append(
            f"budget.total={space.budget.total:g} is a new bound, chosen after results"
            f" (it was {'none' if total is None else f'{total:g}'}); exports made before"
            " keep the total that they were given."
        )
    notes += start_notes(space, known_points)
    notes += notes_of(Plan(name=folder.name, trials=added))
    return Extension(
        prepared=Prepared(space=space, plan=plan, notes=tuple(notes)),
        before=before,
        added=added,
        taken=taken,
        facts=facts,
    )


def _admitted(
    priced: Sequence[PricedTrial],
    found: Mapping[str, Taken],
    gate: SpendGate,
    *,
    num_before: int,
) -> list[PlannedTrial]:
    """The trials in their order, those refused that do not fit into the sweep's total
    beside what the gate has counted and those before them, or into `budget.trials`.
    """
    admitted: list[PlannedTrial] = []
    limit, number = gate.budget.trials, num_before
    for one in priced:
        trial = one.trial
        if limit is not None and number >= limit:
            reason: str | None = f"budget.trials={limit} reached"
        elif trial.id in found:
            reason = gate.take_over(found[trial.id].entries)
        else:
            reason = gate.refusal(one)
        if reason is not None:
            trial = replace(trial, reason=reason, refused_by="budget")
        elif trial.id not in found:
            gate.trials[trial.id] = one
        number += trial.runs
        admitted.append(trial)
    return admitted


def _require_extendable(folder: SweepFolder, space: SearchSpace) -> None:
    folder.require_at_rest()
    before = folder.space()
    if before.search.is_private_selection or space.search.is_private_selection:
        raise InvalidInput(
            f"expected a sweep whose trials are known to extend, got {folder.name}, a"
            " private selection: the number of its draws is secret, and its price is"
            " that of one selection; start a new sweep"
        )
    for name in Search.model_fields.keys() - _MAY_CHANGE:
        old, new = getattr(before.search, name), getattr(space.search, name)
        if old != new:
            raise InvalidInput(
                f"expected search.{name} as {folder.name} was started with, {old}, got"
                f" {new}: start a new sweep"
            )
    if before.search.is_adaptive and before.repeats != space.repeats:
        raise InvalidInput(
            f"expected repeats as {folder.name} was started with, whose search goes by"
            " the means over them, got others: start a new sweep"
        )


def _require_same(
    folder: SweepFolder,
    before: Plan,
    new: Sequence[PlannedTrial],
    entries: Sequence[Entry],
    account: Accounting,
) -> None:
    """Raises: InvalidInput for new trials on another corpus, other records or at
    another delta than the sweep's.
    """
    corpora = {trial.corpus for trial in before.trials if trial.is_config}
    deltas = {trial.delta for trial in before.trials if trial.delta is not None}
    by_id = {trial.id: trial.corpus for trial in before.trials}
    records: dict[str, set[str]] = {}
    for entry in entries:
        records.setdefault(by_id.get(entry.trial, ""), set()).add(entry.dataset)
    for trial in new:
        if not trial.is_config or not trial.runs:
            continue
        if corpora and trial.corpus not in corpora:
            raise InvalidInput(
                f"expected the corpus of {folder.name}, {' or '.join(sorted(corpora))},"
                f" got {trial.corpus}: start a sweep for it"
            )
        if deltas and trial.delta not in (None, *deltas):
            raise InvalidInput(
                f"expected privacy.delta={' or '.join(f'{d:g}' for d in sorted(deltas))}"
                f" as {folder.name} has, whose total is at one delta, got"
                f" {trial.delta:g}: start a sweep for it"
            )
        if trial.corpus in records:
            data = account.data_of(trial.config)
            if (
                account.ledger.key.name_of(data.fingerprint)
                not in records[trial.corpus]
            ):
                raise InvalidInput(
                    f"expected the records of {trial.corpus} that {folder.name} was"
                    " trained on, got others: restore its file, or start a new sweep"
                )


def _smallest_delta(plan: Plan) -> float | None:
    deltas = (t.delta for t in plan.to_run if not t.is_exempt and t.delta is not None)
    return min(deltas, default=None)


def _found(
    folder: SweepFolder,
    priced: Sequence[PricedTrial],
    account: Accounting,
    budget: Budget,
) -> Iterator[tuple[str, Taken]]:
    """The trials that other sweeps of the home have trained, the oldest sweep's first.

    Raises: InvalidData where the files of the only such trial were changed.
    """
    mine = folder.made().id
    others = []
    for other in store.sweeps(folder.path.parent):
        with suppress(InvalidInput):  # a damaged sweep has nothing to take over
            selects = other.space().search.is_private_selection
            if other.made().id != mine and not selects:
                others.append(other)
    doubtful: dict[str, set[str]] = {}
    for one in priced:
        trial_id = one.trial.id
        changed: InvalidData | None = None
        for other in others:
            taken = _taken(other, one, account)
            if taken is None or (budget.epsilon is not None and taken.has_repeated):
                continue  # repeated epochs may cost more than the trial was planned for
            if other.name not in doubtful:
                known = affected([other], account.settings)
                doubtful[other.name] = {name for each in known for name in each.trials}
            if trial_id in doubtful[other.name]:
                continue
            try:
                manifest.require_whole(taken.folder)
            except InvalidData as problem:
                changed = InvalidData(
                    f"{problem}, or train trial {trial_id} again with --no-reuse"
                )
                continue
            yield trial_id, taken
            break
        else:
            if changed is not None:
                raise changed


def _taken(other: SweepFolder, one: PricedTrial, account: Accounting) -> Taken | None:
    """The trial as another sweep has trained it to its end: the same records, at the
    same delta, with the same neighbouring relation, unit and starts, every epoch
    charged. None where it has not.
    """
    state, trial = other.state(), one.trial
    known = state.trial(trial.id)
    if (
        trial.id not in state.planned
        or known.result is None
        or known.status(runs=True, running=False) is not TrialStatus.DONE
    ):
        return None
    ledger, origin = account.ledger, known.taken_from or other.ledger_name
    entries = of_trial(ledger, origin, trial.id)
    name, mechanism = ledger.key.name_of(one.dataset), one.mechanism
    planned = release(mechanism)
    is_same = all(
        ledger.key.name_of(entry.dataset) == name
        and entry.delta == mechanism.delta
        and entry.release.unit == planned.unit
        and entry.release.neighboring_relation == planned.neighboring_relation
        and _split_of(entry.release) == _split_of(planned)
        and entry.starts == mechanism.starts
        and entry.baseline == trial.is_exempt
        for entry in entries
    )
    done = known.result["epochs_done"]
    if not entries or not is_same or uncharged_epochs(trial.id, done, entries):
        return None
    return Taken(
        sweep=origin,
        folder=other.trial_folder(trial.id),
        epochs=tuple(known.rows),
        result=known.result,
        entries=tuple(entries),
    )


def _split_of(what: Release) -> str | None:
    """The split whose parts a release is about; None: every record of the training."""
    return what.split if isinstance(what, Parts) else None


def _nothing_new(
    folder: SweepFolder, refused: Sequence[PlannedTrial], num_known: int
) -> InvalidInput:
    if refused:
        return InvalidInput(
            f"all {len(refused)} points that {folder.name} lacks are refused:"
            f" {refused[0].reason}"
        )
    samples = folder.space().search.num_samples
    return InvalidInput(
        f"expected a point that {folder.name} lacks, got {num_known} that it has: add"
        " values to an axis (--set axes.PATH=[...])"
        f"{', or a larger search.num_samples' if samples else ''}"
    )


def _origins(folder: SweepFolder, taken: Mapping[str, Taken]) -> Iterator[str]:
    for name, number in Counter(each.name for each in taken.values()).items():
        them = "it" if number == 1 else "them"
        yield (
            f"{formats.count(number, 'trial')} of {name}, which has trained and paid for"
            f" {them}: nothing more is charged to the data set, and the epsilon of"
            f" {folder.name} counts {them}."
        )

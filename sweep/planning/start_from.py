"""The results of earlier sweeps as the first observations of a search
(`search.start_from`).

They are what those sweeps have released; the search depends on them as a person would
who has read them. Its own total covers its own trials, and the ledger composes all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from search_spaces.expansion import Branch, Point, branches, points_at
from search_spaces.space import SearchSpace
from sweep.planning.accounting import Accounting
from sweep.search.source import KnownPoint, group_at, objectives_of
from sweep.spending.taken_over import entries_of
from sweep.store import sweeps as store
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables.errors import InvalidInput


def points_to_start_from(
    space: SearchSpace, plan: Plan, account: Accounting
) -> tuple[KnownPoint, ...]:
    """What the sweeps of `search.start_from` have observed at points of the space, the
    newest sweep's where several have the same. `plan` is that of the space, with its
    probes.

    Raises: InvalidInput for a name that no sweep has, a private selection, a search by
        other objectives, a sweep on another corpus or other records, without figures
        of the objectives, or without a point of the space.
    """
    found: dict[str, KnownPoint] = {}
    for name in dict.fromkeys(space.search.start_from):
        folder = store.open_sweep(account.settings.home, name)
        _require_released(folder, space)
        records = _of_the_corpus(folder, plan, account)
        known = list(_points_of(folder, space, records))
        if not known:
            raise InvalidInput(
                f"search.start_from: expected finished trials of {name} that are points"
                f" of the space, with {', '.join(space.search.objectives)}, got none of"
                f" {len(records)}: their other fields must be those of the base"
            )
        found |= {each.group: each for each in known}
    return tuple(found.values())


def _require_released(folder: SweepFolder, space: SearchSpace) -> None:
    search = folder.space().search
    if search.is_private_selection:
        raise InvalidInput(
            f"search.start_from: expected sweeps whose results are released, got"
            f" {folder.name}, a private selection"
        )
    if search.is_adaptive and set(search.objectives) != set(space.search.objectives):
        raise InvalidInput(
            f"search.start_from: expected a search by"
            f" {', '.join(space.search.objectives)}, got {folder.name}, which chose its"
            f" points by {', '.join(search.objectives)}"
        )


def _of_the_corpus(
    folder: SweepFolder, plan: Plan, account: Accounting
) -> list[TrialRecord]:
    """The finished trials on the corpus of a plan.

    Raises: InvalidInput where there are others only, or they had other records.
    """
    usable = [t for t in (*plan.to_run, *plan.probes) if t.is_config]
    by_corpus = {trial.corpus: trial for trial in usable if not trial.baseline}
    finished = [r for r in folder.records() if r.status.is_finished]
    records = [r for r in finished if r.plan.corpus in by_corpus]
    if finished and not records:
        raise InvalidInput(
            f"search.start_from: expected a sweep on {' or '.join(by_corpus)}, got"
            f" {folder.name} on {finished[0].plan.corpus}"
        )
    key = account.ledger.key
    names = {
        corpus: key.name_of(account.data_of(trial.config).fingerprint)
        for corpus, trial in by_corpus.items()
    }
    corpora = {record.plan.id: record.plan.corpus for record in records}
    for entry in entries_of(folder, account.ledger):
        corpus = corpora.get(entry.trial)
        if corpus is not None and entry.dataset != names[corpus]:
            raise InvalidInput(
                f"search.start_from: expected a sweep on the records of {corpus}, got"
                f" {folder.name}, which was trained on others"
            )
    return records


def _points_of(
    folder: SweepFolder, space: SearchSpace, records: Sequence[TrialRecord]
) -> Iterator[KnownPoint]:
    """The configurations that are points of the space and have every objective."""
    groups: dict[str, list[TrialRecord]] = {}
    for record in records:
        if record.plan.is_config and record.epochs_done:
            groups.setdefault(record.plan.group, []).append(record)
    for group, members in groups.items():
        figures = [f for each in members if (f := objectives_of(space, each))]
        point = _point_of(members[0].plan, space) if figures else None
        if point is not None:
            yield KnownPoint(
                sweep=folder.ledger_name,
                group=group,
                variant=point.variant,
                values=point.values,
                objectives=tuple(map(fmean, zip(*figures, strict=True))),
            )


def _point_of(trial: PlannedTrial, space: SearchSpace) -> Point | None:
    """The point of a space that has the trial's config, whatever its seed; None where
    there is none.
    """
    for branch in branches(space):
        values = _values_in(branch, trial)
        if values is None:
            continue
        point = next(points_at(space, branch.variant, values))
        if point.config is not None and group_at(point) == trial.group:
            own = {p: v for p, v in point.values.items() if p in branch.domains}
            return Point(
                variant=point.variant, baseline=False, values=own, fields=point.fields
            )
    return None


def _values_in(branch: Branch, trial: PlannedTrial) -> dict[str, Any] | None:
    """The values of a variant's axes in a trial; None where it has another one. Fields
    that its entries lack are left out.
    """
    found = {}
    for path, domain in branch.domains.items():
        given = trial.values.get(path, _at(trial.fields, path))
        if matching := domain.matching(given):
            found[path] = matching[0]
        elif given is not None:
            return None
    return found


def _at(fields: Mapping[str, Any], path: str) -> Any:
    found: Any = fields
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found

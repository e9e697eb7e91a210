"""The source of an adaptive search's trials: one configuration when a slot is free.

Its whole state is in the sweep's folder: chosen and refused configurations are added to the plan,
and results are read from the trials' records. A resumed search reads the same state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from search_spaces.domains import Branch, branches, num_seeds
from search_spaces.expansion import Point, point_at, points_at
from search_spaces.space import SearchSpace
from sweep.results import select
from sweep.search import suggest as search
from sweep.search.suggest import Observation, Suggestion
from sweep.store import sweeps as store
from sweep.store.entries import Chosen, Earlier
from sweep.store.plans import Plan, PlannedTrial, group_of
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import figures
from trainables.config import TrialConfig

_PATIENCE = 20  # suggestions in a row that are refused or known, before chance chooses
_LAST_PATIENCE = 200  # and draws by chance, before the search ends
_CHEAP = 40  # draws by chance for something that there is room for
_FULL = 8  # consecutive configurations beyond the sweep's total before random draws


class SearchSource:
    """Chooses the trials of one sweep. Not for several threads.

    `plan_of` makes a trial of a point, with its figures or the reason why it is refused.
    `admits` returns why the sweep's total does not permit the seeds of a configuration, or None.
    """

    def __init__(
        self,
        folder: SweepFolder,
        *,
        plan_of: Callable[[Point], PlannedTrial],
        earlier: Sequence[TrialRecord] = (),
        admits: Callable[[Sequence[PlannedTrial]], str | None] = lambda trials: None,
    ) -> None:
        self._folder = folder
        self._space = folder.space()
        self._seeds = num_seeds(self._space)
        self._plan_of = plan_of
        self._admits = admits
        self._warm = observations_of(self._space, earlier)
        variants = {branch.variant.name: branch.variant for branch in branches(self._space)}
        self._warm_groups = {
            _group(point_at(self._space, variants[one.variant], one.values)[0])
            for one in self._warm
        }
        self._waiting: list[PlannedTrial] = []
        self._plan = folder.plan()  # which this process alone changes while it runs the sweep
        self._final: dict[str, TrialRecord] = {}  # records that will not change
        self._observed: dict[
            str, Observation | None
        ] = {}  # of configurations whose records are all final
        self.exhausted = False

    @property
    def num_left(self) -> int:
        """Configurations that are still to be chosen."""
        if self.exhausted:
            return 0
        plan = self._plan
        left = (self._space.search.num_samples or 0) - _num_chosen(plan)
        if self._space.budget.trials is not None:
            left = min(left, (self._space.budget.trials - len(plan.to_run)) // self._seeds)
        return max(0, left)

    @property
    def is_over(self) -> bool:
        """Whether no further trial will come."""
        return not self._waiting and self.num_left == 0

    def next(self) -> PlannedTrial | None:
        """The next trial, which this adds to the plan; None without one."""
        if not self._waiting and self.num_left:
            self._waiting = self._choose()
            self.exhausted = not self._waiting
        return self._waiting.pop(0) if self._waiting else None

    def _choose(self) -> list[PlannedTrial]:
        """The trials of a new configuration, one a seed; none where nothing new is permitted."""
        records = [self._record(trial) for trial in self._plan.trials]
        observations = [*self._warm, *observations_of(self._space, records, known=self._observed)]
        known = {trial.group for trial in self._plan.trials} | self._warm_groups
        full, num_before = 0, len(observations)
        for attempt in range(_PATIENCE + _LAST_PATIENCE):
            # Where the sampler keeps suggesting configurations beyond the total, random draws may
            # find a cheaper one.
            if full == _FULL + _CHEAP:
                break
            by_chance = attempt >= _PATIENCE or full >= _FULL
            suggestion = search.suggest(
                self._space, observations, draw=num_before + attempt, at_random=by_chance
            )
            points = point_at(self._space, suggestion.variant, suggestion.values)
            group = _group(points[0])
            if group in known:
                continue
            known.add(group)
            trials = [self._plan_of(point) for point in points]
            if (reason := self._refusal(trials)) is not None:
                full += 1
                if full > _FULL:
                    continue  # the plan shows enough of them
                trials = [replace(t, reason=reason, refused_by="budget") for t in trials[:1]]
            self._folder.add(Chosen(trials=tuple(trials)))
            self._plan = replace(self._plan, trials=(*self._plan.trials, *trials))
            if trials[0].runs:
                return trials
            observations.append(_infeasible(suggestion, trials[0], self._space))
        return []

    def _record(self, trial: PlannedTrial) -> TrialRecord:
        """The record of a trial; that of a finished or refused one is read once."""
        if trial.id in self._final:
            return self._final[trial.id]
        record = self._folder.record(trial, running=True)
        if record.status.is_finished or record.status is TrialStatus.REFUSED:
            self._final[trial.id] = record
        return record

    def _refusal(self, trials: Sequence[PlannedTrial]) -> str | None:
        """The reason why a permitted configuration may not run in this sweep, or None."""
        running = [trial for trial in trials if trial.runs]
        return self._admits(running) if running else None


def unrun(folder: SweepFolder, records: Sequence[TrialRecord]) -> list[str]:
    """Sentences with the reasons of trials that did not end, and of a search that ended early."""
    waiting = [r for r in records if r.status.is_pending and r.reason]
    found = [
        f"{number} of {len(records)} trials did not run to their end: {reason}."
        for reason, number in Counter(str(record.reason) for record in waiting).items()
    ]
    if (sentence := ended_early(folder)) is not None:
        found.append(sentence)
    return found


def ended_early(folder: SweepFolder) -> str | None:
    """Why an ended search chose fewer configurations than `num_samples`, in a sentence."""
    space, plan = folder.space(), folder.plan()
    requested, chosen = space.search.num_samples or 0, _num_chosen(plan)
    if not space.search.is_adaptive or chosen >= requested or folder.is_running:
        return None
    limit = space.budget.trials
    if limit is not None and limit - len(plan.to_run) < num_seeds(space):
        why = f"budget.trials={limit} reached"
    elif (denied := folder.state().search_denied) is not None:
        why = denied
    else:
        refused = [t for t in plan.trials if not t.runs and t.refused_by == "budget"]
        why = str(refused[-1].reason) if refused else "no new point is left"
    return f"The search ended after {chosen} of {requested} configurations: {why}."


def earlier_records(
    space: SearchSpace, home: Path, *, folder: SweepFolder | None = None
) -> list[TrialRecord]:
    """The finished trials of the sweeps in `search.warm_start` that are points of this space, up to
    the seed and the evaluation. With the `folder` of the sweep that starts from them: their records
    at its start, whatever happened to those sweeps since.

    Raises: InvalidInput for a sweep that does not exist.
    """
    if folder is not None and (kept := folder.state().earlier_trials) is not None:
        return kept
    found = []
    known = branches(space)
    for name in space.search.warm_start:
        records = store.open_sweep(home, name).records()
        found += [r for r in records if r.status.is_finished and _is_point(space, r, known)]
    if folder is not None and found:
        folder.add(Earlier(records=found))
    return found


def observations_of(
    space: SearchSpace,
    records: Sequence[TrialRecord],
    *,
    known: dict[str, Observation | None] | None = None,
) -> list[Observation]:
    """The observations of a space's points, in order, one for all seeds of a configuration.

    `known` caches final observations, by the configuration's group.
    """
    groups: dict[str, list[TrialRecord]] = {}
    for record in records:
        if not record.plan.baseline:
            groups.setdefault(record.plan.group, []).append(record)
    observations = []
    found = branches(space)
    kept = {} if known is None else known
    for key, members in groups.items():
        if key in kept:
            observations.append(kept[key])
            continue
        place = _place(space, members[0], found)
        observations.append(None if place is None else _observation(space, place, members))
        if not any(r.status.is_pending or r.status is TrialStatus.FAILED for r in members):
            kept[key] = observations[-1]
    return [one for one in observations if one is not None]


def objectives_of(space: SearchSpace, record: TrialRecord) -> tuple[float, ...] | None:
    """A finished trial's objectives; None where one is missing."""
    found = []
    for name in space.search.objectives:
        value = select.compared(record, name)
        if value is None or math.isnan(value):
            return None
        # Samplers compare epsilons by size and cannot handle infinity: a bounded logarithm.
        if name == figures.EPSILON:
            value = min(math.log10(max(value, 1e-12)), 12.0)
        found.append(figures.cost(name, value))
    return tuple(found)


def _observation(
    space: SearchSpace, place: Suggestion, members: Sequence[TrialRecord]
) -> Observation:
    known = [
        objectives
        for record in members
        if record.status.is_finished and record.epochs_done
        if (objectives := objectives_of(space, record)) is not None
    ]
    name, values = place.variant.name, place.values
    if members[0].status is TrialStatus.REFUSED:
        return _infeasible(place, members[0].plan, space)
    if any(record.status.is_pending for record in members):
        return Observation(variant=name, values=values, state="running")
    if not known:
        return Observation(variant=name, values=values, state="failed")
    mean = tuple(math.fsum(column) / len(column) for column in zip(*known, strict=True))
    return Observation(variant=name, values=values, state="done", objectives=mean)


def _infeasible(place: Suggestion, trial: PlannedTrial, space: SearchSpace) -> Observation:
    violation, limit = 1.0, space.budget.epsilon
    if trial.refused_by == "budget" and limit is not None and trial.epsilon_budget:
        # The excess over the budget, from which the sampler learns the direction.
        violation = min(max(math.log(trial.epsilon_budget / limit), 0.01), 30.0)
    return Observation(
        variant=place.variant.name, values=place.values, state="refused", violation=violation
    )


def _place(space: SearchSpace, record: TrialRecord, found: Sequence[Branch]) -> Suggestion | None:
    """The point of a record's trial among the `branches` of the space, by its values or, in an
    earlier sweep, by its config.
    """
    # Fields that were added since the trial was planned have their defaults.
    mine = _dump(record.plan.config) if record.plan.is_config else record.plan.fields
    for branch in found:
        known = {path: _at(record.plan.fields, path) for path in branch.domains}
        if branch.variant.name == record.plan.variant:
            known |= {p: v for p, v in record.plan.values.items() if p in branch.domains}
        values = branch.inside(known)
        # The others differ by their seed.
        point = next(points_at(space, branch.variant, branch.lowest() | values))
        if not _same_law(_dump(point.config) or point.fields, mine):
            continue
        # A field that the point's entries lack has no value.
        read = [path for path in branch.domains if path in point.values]
        if all(path in values for path in read):
            return Suggestion(variant=branch.variant, values={p: values[p] for p in read})
    return None


def _dump(config: TrialConfig | None) -> dict[str, Any]:
    return {} if config is None else config.model_dump(mode="json")


def _is_point(space: SearchSpace, record: TrialRecord, found: Sequence[Branch]) -> bool:
    return not record.plan.baseline and _place(space, record, found) is not None


def _same_law(one: dict[str, object], other: dict[str, object]) -> bool:
    return _without_seed(one) == _without_seed(other)


def _without_seed(fields: dict[str, object]) -> dict[str, object]:
    training = fields.get("training")
    kept = {key: value for key, value in fields.items() if key != "evaluation"}
    if isinstance(training, dict):
        kept["training"] = {k: v for k, v in training.items() if k != "seed"}
    return kept


def _at(config: dict[str, object], path: str) -> object:
    found: object = config
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def _group(point: Point) -> str:
    config = point.config
    return group_of(config.model_dump(mode="json") if config is not None else point.fields)


def _num_chosen(plan: Plan) -> int:
    return len({trial.group for trial in plan.trials if trial.runs and not trial.baseline})

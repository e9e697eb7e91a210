"""The jobs of planned trials, and of those that an adaptive search chooses, each of
which is priced and known to the gate before it is assigned.
"""

from dataclasses import replace

from search_spaces.expansion import num_seeds, points_at
from sweep.planning.accounting import Accounting
from sweep.planning.plan import plan_point
from sweep.planning.pricing import price
from sweep.runtime.events import TrialJob
from sweep.search.source import (
    group_at,
    infeasible,
    known_points,
    num_chosen,
    observations_of,
)
from sweep.search.suggest import Observation, suggest
from sweep.spending.gate import SpendGate
from sweep.store.plans import PlannedTrial
from sweep.store.state import TrialsSuggested
from sweep.store.sweeps import SweepFolder


def job_of(trial: PlannedTrial, folder: SweepFolder) -> TrialJob:
    """The job of a planned trial."""
    return TrialJob(
        trial_id=trial.id,
        config=trial.config,
        folder=folder.trial_folder(trial.id),
        point={"variant": trial.variant, **trial.values},
        owner=folder.made().id,
    )


_PATIENCE = 20  # suggestions in a row that are refused or known, before chance chooses
_LAST_PATIENCE = 200  # and draws by chance, before the search ends
_CHEAP = 40  # draws by chance for something that there is room for
_FULL = 8  # consecutive configurations beyond the sweep's total before random draws


class ChosenJobs:
    """The jobs of a search, chosen while others run: one configuration when a slot is
    free. `gate` decides whether the budget permits them. Never called at the same time
    as the driver, which asks the gate too. Not for several threads.

    Its whole state is in the sweep's folder: chosen and refused configurations are
    added to the plan, and results are read from the trials' records. A resumed search
    reads the same state.
    """

    def __init__(
        self, sweep: SweepFolder, account: Accounting, gate: SpendGate
    ) -> None:
        self._sweep, self._account, self._gate = sweep, account, gate
        self._space = space = sweep.space()
        self._seeds = num_seeds(space)
        self._waiting: list[PlannedTrial] = []
        # Of configurations whose records are all final.
        self._observed: dict[str, Observation] = {}
        self._is_exhausted = False

    @property
    def num_left(self) -> int:
        """Upper bound of the number of further trials."""
        if self._is_exhausted:
            return 0
        plan = self._sweep.plan()
        left = (self._space.search.num_samples or 0) - num_chosen(plan)
        if (limit := self._space.budget.trials) is not None:
            left = min(left, (limit - len(plan.to_run)) // self._seeds)
        return max(0, left) * self._seeds

    def next(self) -> TrialJob | None:
        """The next job; None without a further one."""
        if not self._waiting and self.num_left:
            self._waiting = self._choose()
            self._is_exhausted = not self._waiting
        if not self._waiting:
            return None
        trial = self._waiting.pop(0)
        [self._gate.trials[trial.id]] = price([trial], self._account)
        return job_of(trial, self._sweep)

    def _choose(self) -> list[PlannedTrial]:
        """The trials of a new configuration, one a seed; none where nothing new is
        permitted.
        """
        records = self._sweep.records(running=True)
        before = known_points(self._sweep.about())
        observations = [each.observation for each in before]
        observations += observations_of(self._space, records, known=self._observed)
        known = {record.plan.group for record in records}
        known |= {each.group for each in before}
        full, num_before = 0, len(observations)
        for attempt in range(_PATIENCE + _LAST_PATIENCE):
            # Where the sampler keeps suggesting configurations beyond the total, random
            # draws may find a cheaper one.
            if full == _FULL + _CHEAP:
                break
            by_chance = attempt >= _PATIENCE or full >= _FULL
            suggestion = suggest(
                self._space,
                observations,
                draw=num_before + attempt,
                at_random=by_chance,
            )
            points = [*points_at(self._space, suggestion.variant, suggestion.values)]
            group = group_at(points[0])
            if group in known:
                continue
            known.add(group)
            trials = [
                plan_point(self._space, point, account=self._account)
                for point in points
            ]
            # Why the sweep's total does not permit the seeds of the configuration.
            reason = self._gate.refusal(*price(trials, self._account))
            if reason is not None:
                full += 1
                if full > _FULL:
                    continue  # the plan shows enough of them
                trials = [
                    replace(t, reason=reason, refused_by="budget") for t in trials[:1]
                ]
            self._sweep.add(TrialsSuggested(trials=tuple(trials)))
            if trials[0].runs:
                return trials
            observations.append(infeasible(trials[0], suggestion.values, self._space))
        return []

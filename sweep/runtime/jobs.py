"""The jobs of planned trials, and of those that an adaptive search chooses, each of which is priced
and known to the gate before it is assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from search_spaces.domains import num_seeds
from sweep.planning import cost
from sweep.planning.accounting import accounting
from sweep.planning.plan import plan_point
from sweep.runtime.events import TrialJob
from sweep.search.source import SearchSource, earlier_records
from sweep.settings import Settings
from sweep.spending.entries import PricedTrial
from sweep.spending.gate import SpendGate
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder


def job_of(trial: PlannedTrial, folder: SweepFolder, *, workers: int) -> TrialJob:
    """The job of a trial of the sweep, with its folder."""
    return TrialJob(
        trial_id=trial.id,
        config=trial.config,
        folder=folder.start_folder(trial.id),
        workers=workers,
        point={"variant": trial.variant, **trial.values},
    )


class ChosenJobs:
    """The jobs of a search, chosen while others run. Each has `workers` processes; `folder` is the
    sweep's. `price` gives the prices of trials; `gate` decides whether the budget permits them.
    Never called at the same time as the driver, which asks the gate too.
    """

    def __init__(
        self,
        sweep: SweepFolder,
        settings: Settings,
        gate: SpendGate,
        *,
        price: Callable[[Sequence[PlannedTrial]], list[PricedTrial]],
    ) -> None:
        space = sweep.space()
        self.folder = sweep.path
        self.workers = sweep.plan().workers
        self._sweep = sweep
        self._gate = gate
        self._price = price
        self._seeds = num_seeds(space)
        sweep.deny_search(None)
        self._source = SearchSource(
            sweep,
            plan_of=partial(
                plan_point,
                space,
                account=accounting(settings, cost.estimator(settings.home)),
            ),
            earlier=earlier_records(space, settings.home, folder=sweep),
            admits=lambda trials: gate.refusal(*price(trials)),
        )

    @property
    def num_left(self) -> int:
        """Upper bound of the number of further trials."""
        return self._source.num_left * self._seeds

    def next(self) -> TrialJob | None:
        """The next job; None without a further one, or without time for it."""
        if (reason := self._gate.time_is_up()) is not None:
            self._sweep.deny_search(reason)
            return None
        trial = self._source.next()
        if trial is None:
            return None
        [self._gate.trials[trial.id]] = self._price([trial])
        return job_of(trial, self._sweep, workers=self.workers)

"""The jobs of an adaptive search; each is priced and known to the gate before it is assigned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from search_spaces.domains import branches, num_seeds
from search_spaces.expansion import Point, point_at
from search_spaces.space import SearchSpace
from sweep.runtime.events import TrialJob
from sweep.search.source import SearchSource
from sweep.spending.entries import PricedTrial
from sweep.spending.gate import SpendGate
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder, TrialRecord


class ChosenJobs:
    """A `JobSource` of trials with the same number of processes. `price` gives the price of a
    trial, `job` its job; `gate` decides whether the budget permits it.
    """

    def __init__(
        self,
        folder: SweepFolder,
        *,
        plan_of: Callable[[Point], PlannedTrial],
        earlier: Sequence[TrialRecord],
        gate: SpendGate,
        price: Callable[[PlannedTrial], PricedTrial],
        job: Callable[[PlannedTrial], TrialJob],
    ) -> None:
        space = folder.space()
        self.folder = folder.path
        self._folder = folder
        folder.deny_search(None)
        self._gate = gate
        self.workers = workers_of(space)
        self._seeds = num_seeds(space)
        self._price = price
        self._job = job
        self._source = SearchSource(
            folder,
            plan_of=plan_of,
            earlier=earlier,
            admits=lambda trials: gate.refusal(*map(price, trials)),
        )

    @property
    def num_left(self) -> int:
        """Upper bound of the number of further trials."""
        return self._source.num_left * self._seeds

    def next(self) -> TrialJob | None:
        """The next job; None without a further one, or without time for it."""
        if (reason := self._gate.time_is_up()) is not None:
            self._folder.deny_search(reason)
            return None
        trial = self._source.next()
        if trial is None:
            return None
        self._gate.add(self._price(trial))
        return replace(self._job(trial), workers=self.workers)


def workers_of(space: SearchSpace) -> int:
    """Processes of each trial of an adaptive search, equal for all, so that one group of processes
    serves them.
    """
    points = [p for b in branches(space) for p in point_at(space, b.variant, b.lowest())]
    logical = [int(p.config.training.num_workers) for p in points if p.config is not None]
    return min([space.resources.workers or max(logical, default=1), *logical])

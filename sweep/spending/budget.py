"""The budgets of a sweep: epsilon a trial, a total of all trials, time. Pure, without disk.

`sweep.planning.plan` refuses trials over budget before anything starts; these apply during a run.
A total holds by composition, or, where trials are chosen or stopped by earlier results, by a
privacy filter (`sweep.spending.filter`). Exempt baselines are never passed to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from search_spaces.parts import Budget
from sweep.spending.composition import Composition
from sweep.spending.filter import admits
from trainables import accountants, formats
from trainables.accountants import Release, epsilon_sweep, paper_zcdp
from trainables.errors import CannotAnalyze, InvalidInput
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.rounding import format_epsilon

if TYPE_CHECKING:
    from trainables.accountants import RdpFilter
import time
from collections.abc import Mapping


def epsilon_refusal(budget: Budget, mechanism: Mechanism, epochs_done: int) -> str | None:
    """The reason why epoch number `epochs_done` + 1 may not be trained; None if and only if epsilon
    at its end is within `budget.epsilon`. After the last epoch nothing is spent, so None.

    Under the accountant "sound" any valid upper bound within the limit permits. A quick one is
    tried first, and the exact figure decides.

    Raises: InvalidInput for epochs_done outside 0, ..., epochs.
    """
    if not 0 <= epochs_done <= mechanism.epochs:
        raise InvalidInput(
            f"expected 0 <= epochs_done <= {mechanism.epochs}, got epochs_done={epochs_done}"
        )
    if epochs_done == mechanism.epochs or budget.epsilon is None or mechanism.is_free:
        return None
    epochs, smallest = epochs_done + 1, float("inf")
    try:
        for figure in _figures(budget.accountant, mechanism, epochs):
            smallest = min(smallest, figure())
            if smallest <= budget.epsilon:
                return None
    except CannotAnalyze as error:
        return f"no epsilon to hold against budget.epsilon: {error}"
    return (
        f"epsilon {format_epsilon(smallest)} ({budget.accountant}) after"
        f" {formats.count(epochs, 'epoch')} exceeds budget.epsilon={budget.epsilon:g}"
    )


def _figures(accountant: str, mechanism: Mechanism, epochs: int) -> Iterator[Callable[[], float]]:
    """Upper bounds of epsilon after `epochs` epochs, quick ones first."""
    stopped = mechanism.first(epochs)
    if accountant == "paper":
        yield lambda: paper_zcdp.epsilon(stopped, delta=stopped.delta)
    elif accountant == "sound":
        yield lambda: accountants.epsilon_after(mechanism, epochs)
        # A trial that the plan admitted as a whole is not stopped by another bound.
        yield lambda: accountants.account(mechanism, exact=False).epsilon
        yield lambda: accountants.account(stopped).epsilon
    else:
        yield lambda: accountants.account(stopped, accountant=accountant).epsilon


def time_refusal(budget: Budget, *, seconds: float, accelerator_hours: float = 0.0) -> str | None:
    """The reason why no epoch may begin after `seconds` of wall-clock and `accelerator_hours` of a
    sweep over its resumes, or None.
    """
    if budget.accelerator_hours is not None and accelerator_hours >= budget.accelerator_hours:
        return f"budget.accelerator_hours={budget.accelerator_hours:g} reached"
    if budget.seconds is not None and seconds >= budget.seconds:
        return f"budget.seconds={budget.seconds:g} reached"
    return None


def bounds_after(mechanism: Mechanism, epochs: int) -> dict[str, float]:
    """Upper bounds of the epsilon of `epochs` epochs, quick enough for use between epochs."""
    stopped = mechanism.first(epochs)
    if mechanism.sampling == "shuffle" or mechanism.decay_kind == "none":
        spent = {"epsilon_spent": accountants.epsilon_after(mechanism, epochs)}
    else:  # a distribution for each epoch's noise would take seconds
        spent = {"epsilon_spent": accountants.account(stopped, exact=False).epsilon}
    if mechanism.has_paper_figure:
        spent["epsilon_paper_spent"] = paper_zcdp.epsilon(stopped, delta=mechanism.delta)
    return spent


class TotalBudget:
    """At most epsilon `limit` for all releases, each of which has a key; `filter_` where the
    releases depend on earlier results. A reason calls a release by its `noun`.
    """

    def __init__(
        self, limit: float, *, filter_: RdpFilter | None = None, noun: str = "attempt"
    ) -> None:
        self._limit = limit
        self._noun = noun
        self._filter = filter_
        self._composition = Composition()
        self._charged: set[Hashable] = set()
        self._costs: dict[Hashable, float] = {}  # of each release at the order of the filter
        self._delta = 1.0

    def charge(self, key: Hashable, what: Release, *, delta: float) -> None:
        """Count a release instead of the one with the same key."""
        self._composition.put(key, what)
        self._charged.add(key)
        self._delta = min(self._delta, delta)
        if self._filter is not None:
            self._costs[key] = self._filter.cost(what)

    def refusal(self, key: Hashable, what: Release, *, delta: float) -> str | None:
        """The reason why a release may not be charged, or None."""
        at = min(self._delta, delta)
        if self._filter is None:
            if self._composition.bound(key, what).epsilon(delta=at) <= self._limit:
                return None
            return self._over(self._composition.releases(key, what), at, self._beside(key))
        together = self._composition.releases(key, what)
        if len({(each.neighboring_relation, each.unit) for each in together}) > 1:
            return self.refusal_of(together, delta=delta)
        others = math.fsum(cost for charged, cost in self._costs.items() if charged != key)
        fits = others + self._filter.cost(what) <= self._filter.budget
        return None if fits else f"{self._no_room()} {self._beside(key)} (filter)"

    def refusal_of(self, releases: Iterable[Release], *, delta: float) -> str | None:
        """The reason why the releases, which must include the charged ones, do not fit, or None."""
        given = list(releases)
        if self._filter is None:
            every = Composition(given).releases()
            return self._over(every, min(self._delta, delta), "of all trials")
        try:
            return None if admits(self._filter, given) else f"{self._no_room()} (filter)"
        except CannotAnalyze as problem:
            return str(problem)

    def _over(self, releases: Iterable[Release], delta: float, beside: str) -> str | None:
        together = epsilon_sweep(releases, delta=delta).epsilon
        if together <= self._limit:
            return None
        return f"epsilon {format_epsilon(together)} {beside} exceeds budget.total={self._limit:g}"

    def _beside(self, key: Hashable) -> str:
        others = len(self._charged) - (key in self._charged)
        return f"with the {formats.count(others, self._noun)} before it" if others else "alone"

    def _no_room(self) -> str:
        return f"budget.total={self._limit:g} has no room for it"


class TimeSpent:
    """`before`: wall-clock seconds of earlier runs. `of_trials`: seconds that each trial has
    trained. `gpus`: GPUs (or the share of one) of each trial; 0 for a missing trial.
    """

    def __init__(
        self,
        *,
        before: float = 0.0,
        of_trials: Mapping[str, float] | None = None,
        gpus: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._before = before
        self._clock = clock
        self._started = clock()
        self._of_trials: dict[str, float] = {}
        self._gpus = dict(gpus or {})
        self._gpu_seconds = 0.0
        for trial_id, seconds in (of_trials or {}).items():
            self.add(trial_id, seconds)

    @property
    def seconds(self) -> float:
        """Wall-clock of the sweep so far, earlier runs included."""
        return self._before + self._clock() - self._started

    @property
    def accelerator_hours(self) -> float:
        """GPU hours of the trials so far; 0 without GPUs."""
        return self._gpu_seconds / 3600

    def expect(self, trial_id: str, *, gpus: float) -> None:
        """Register a further trial with its GPUs."""
        self._gpus[trial_id] = gpus

    def add(self, trial_id: str, seconds: float) -> None:
        """Add `seconds` of training of a trial."""
        self._of_trials[trial_id] = self._of_trials.get(trial_id, 0.0) + seconds
        self._gpu_seconds += seconds * self._gpus.get(trial_id, 0.0)

    def add_rest(self, trial_id: str, whole: float) -> None:
        """Extend a trial's time to `whole` seconds in total, measuring included."""
        self.add(trial_id, max(0.0, whole - self._of_trials.get(trial_id, 0.0)))

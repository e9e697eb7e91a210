"""Checks a plan against the total of its sweep: trials that would exceed it are refused before
anything starts, so that no trial is stopped halfway for a reason known in advance.
Pure but for `account`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

from search_spaces.space import SearchSpace
from sweep.spending.account import Account
from sweep.spending.filter import admits, filter_delta, filter_of
from sweep.store.plans import Plan, PlannedTrial
from trainables import accountants, formats
from trainables.errors import CannotAnalyze
from trainables.figure_cache import FigureCache, key_of
from trainables.privacy.rounding import format_delta, format_epsilon


def within_total(
    plan: Plan, space: SearchSpace, *, account: Account, begun: Collection[str] = ()
) -> Plan:
    """The plan within `budget.total`: trials are admitted in order, those that have `begun` first.
    One that would exceed the total with those admitted is refused; a later, cheaper one may still
    fit. Baselines are exempt, as in the driver.
    """
    trials = [trial for trial in plan.to_run if not trial.baseline]
    if space.budget.total is None or not trials:
        return plan
    fits = _Room(space, account)
    refused = {}
    for trial in sorted(trials, key=lambda trial: trial.id not in begun):
        reason = fits.take(trial, must=trial.id in begun)
        if reason is not None:
            refused[trial.id] = replace(trial, reason=reason, refused_by="budget")
    return replace(plan, trials=tuple(refused.get(trial.id, trial) for trial in plan.trials))


def total_of_plan(
    plan: Plan, *, account: Account, kept: FigureCache
) -> tuple[dict[str, Any] | None, str]:
    """The composition of all planned trials but the baselines (the fields of a `SweepSpend` as
    JSON), and a sentence about it; None where nothing is spent.
    """
    trials = [trial for trial in plan.to_run if not trial.baseline]
    if not trials:
        return None, ""
    mechanisms = [account(trial.config).mechanism for trial in trials]
    delta = min(mechanism.delta for mechanism in mechanisms)
    key = key_of(*mechanisms, together=True, delta=delta)
    found = kept.find(key)
    if found is None:
        releases = map(accountants.release, mechanisms)
        spent = accountants.epsilon_sweep(releases, delta=delta)
        found = {**asdict(spent), "unaccounted": list(spent.unaccounted)}
        kept.keep(key, found)
    baselines = len(plan.to_run) - len(trials)
    without = f", without {formats.count(baselines, 'baseline')}" if baselines else ""
    subject = f"All {len(trials)} trials together" if len(trials) > 1 else "The trial"
    return found, (
        f"{subject}{without}: epsilon {format_epsilon(found['epsilon'])}"
        f" at delta {format_delta(delta)} ({found['accountant']}), if nothing else is released."
    )


class _Room:
    """The admitted trials, and whether one more fits."""

    def __init__(self, space: SearchSpace, account: Account) -> None:
        assert space.budget.total is not None
        self._total = space.budget.total
        self._account = account
        self._filter = filter_of(space, delta=filter_delta(space, account))
        self._taken: list[accountants.Release] = []
        self._smallest_delta = 1.0

    def take(self, trial: PlannedTrial, *, must: bool) -> str | None:
        """Admit a trial, or return why it is refused; with `must` it is always admitted."""
        mechanism = self._account(trial.config).mechanism
        delta = min(self._smallest_delta, mechanism.delta)
        with_it = [*self._taken, accountants.release(mechanism)]
        reason = None if must else self._over(with_it, delta=delta)
        if reason is None:
            self._taken, self._smallest_delta = with_it, delta
        return reason

    def _over(self, releases: Sequence[accountants.Release], *, delta: float) -> str | None:
        others = len(releases) - 1
        beside = f"with the {formats.count(others, 'trial')} before it" if others else "alone"
        try:
            if self._filter is not None:
                if admits(self._filter, releases):
                    return None
                return f"budget.total={self._total:g} has no room for it {beside} (filter)"
            together = accountants.epsilon_sweep(releases, delta=delta).epsilon
        except CannotAnalyze as problem:
            return str(problem)
        if together <= self._total:
            return None
        return f"epsilon {format_epsilon(together)} {beside} exceeds budget.total={self._total:g}"

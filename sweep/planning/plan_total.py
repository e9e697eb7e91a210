"""A plan held against the total of its sweep before anything starts: who would pass it is refused,
so that no trial is cut off in the middle by what was known beforehand. Pure but for `account`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

from search_spaces.space import SearchSpace
from sweep.spending.account import Account
from sweep.spending.filter import admits, filter_delta, filter_of
from sweep.store.plans import Plan, PlannedTrial
from trainables import accountants
from trainables.errors import CannotAnalyze
from trainables.figure_cache import FigureCache, key_of
from trainables.privacy.rounding import format_epsilon


def within_total(
    plan: Plan, space: SearchSpace, *, account: Account, begun: Collection[str] = ()
) -> Plan:
    """The plan with `budget.total` kept: trials are let in one after another, those that have
    `begun` before all others; one that would pass the total with those let in is refused, a later,
    cheaper one may still fit. Baselines are exempt, here as in the driver.
    """
    if space.budget.total is None:
        return plan
    fits = _Room(space, account)
    order = sorted(plan.to_run, key=lambda trial: trial.id not in begun)
    refused = {}
    for trial in order:
        if trial.baseline:
            continue
        reason = fits.take(trial, must=trial.id in begun)
        if reason is not None:
            refused[trial.id] = replace(trial, reason=reason, refused_by="budget")
    return replace(plan, trials=tuple(refused.get(trial.id, trial) for trial in plan.trials))


def together(
    plan: Plan, *, account: Account, kept: FigureCache
) -> tuple[dict[str, Any] | None, str]:
    """What all planned trials but the baselines cost together (the fields of a `SweepSpend`, as
    JSON has them), and a sentence about it; None where nothing is spent, or trials protect
    different things.
    """
    trials = [trial for trial in plan.to_run if not trial.baseline]
    if not trials:
        return None, ""
    mechanisms = [
        account(trial.config, accountant=None, careful=False).mechanism for trial in trials
    ]
    delta = min(mechanism.delta for mechanism in mechanisms)
    key = key_of(*mechanisms, together=True, delta=delta)
    found = kept.find(key)
    if found is None:
        releases = map(accountants.release, mechanisms)
        try:
            spent = accountants.epsilon_sweep(releases, delta=delta)
        except CannotAnalyze as problem:
            return None, f"The trials have no epsilon together: {problem}."
        found = {**asdict(spent), "unaccounted": list(spent.unaccounted)}
        kept.keep(key, found)
    baselines = len(plan.to_run) - len(trials)
    without = f", without {baselines} baseline{'s' if baselines > 1 else ''}" if baselines else ""
    return found, (
        f"All {len(trials)} trials together{without}: epsilon {format_epsilon(found['epsilon'])}"
        f" at delta {delta:g} ({found['accountant']}), where nothing else is released."
    )


class _Room:
    """What has been let in, and whether one more fits beside it."""

    def __init__(self, space: SearchSpace, account: Account) -> None:
        assert space.budget.total is not None
        self._total = space.budget.total
        self._account = account
        self._filter = None
        if any(not variant.baseline for variant in space.variants) or not space.variants:
            delta = filter_delta(space, account)
            self._filter = filter_of(space, delta=delta)
        self._taken: list[accountants.Release] = []
        self._smallest_delta = 1.0

    def take(self, trial: PlannedTrial, *, must: bool) -> str | None:
        """Let a trial in, or say why not; one that `must` is let in whatever it costs."""
        mechanism = self._account(trial.config, accountant=None, careful=False).mechanism
        delta = min(self._smallest_delta, mechanism.delta)
        with_it = [*self._taken, accountants.release(mechanism)]
        reason = None if must else self._over(with_it, delta=delta)
        if reason is None:
            self._taken, self._smallest_delta = with_it, delta
        return reason

    def _over(self, releases: Sequence[accountants.Release], *, delta: float) -> str | None:
        others = len(releases) - 1
        beside = f"with the {others} trials before it" if others else "alone"
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

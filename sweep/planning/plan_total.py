"""Checks a plan against the total of its sweep: trials that would exceed it are refused
before anything starts, so that no trial is stopped halfway for a reason known in
advance. Pure but for `account`.
"""

from dataclasses import asdict, replace
from typing import Any

from search_spaces.space import SearchSpace
from sweep.planning.accounting import Accounting
from sweep.spending.filter import filter_of
from sweep.store.plans import Plan
from trainables import formats
from trainables.cards.card import Total
from trainables.dp.accounting.releases import Release, once
from trainables.dp.accounting.releases import release as release_of
from trainables.dp.accounting.rounding import (
    format_delta,
    format_epsilon,
    risk_sentences,
)
from trainables.figure_cache import key_of, kind_of


class PlanTotal(Total):
    """The composition of all planned trials: the fields of a `Certificate`."""

    tight: bool


_TOTAL = kind_of(PlanTotal)


def within_total(plan: Plan, space: SearchSpace, *, account: Accounting) -> Plan:
    """The plan within `budget.total`: trials are admitted in order. One that would
    exceed the total with those admitted is refused; a later, cheaper one may still fit.
    Exempt baselines do not count, as in the driver.
    """
    trials = [trial for trial in plan.to_run if not trial.is_exempt]
    if space.budget.total is None or not trials:
        return plan
    # Slow to import: it loads the accountants.
    from sweep.spending.gate import total_refusal
    from trainables.dp.accounting.composition import Account

    spent = Account(filter_of(space, plan.filter_delta))
    refused = {}
    reasons: dict[object, str] = {}
    for trial in trials:
        mechanism = account(trial.config).mechanism
        what, delta = release_of(mechanism), mechanism.delta
        # What does not fit now does not fit later.
        more: dict[Any, Release] = {**once(mechanism.starts), trial.id: what}
        cost = what, mechanism.starts, delta
        reason = reasons.get(cost) or total_refusal(
            spent, space.budget.total, more, delta=delta, noun="trial"
        )
        if reason is None:
            for name, each in more.items():
                spent.put(name, each, delta=delta)
        else:
            reasons[cost] = reason
            refused[trial.id] = replace(trial, reason=reason, refused_by="budget")
    return replace(
        plan, trials=tuple(refused.get(trial.id, trial) for trial in plan.trials)
    )


def total_of_plan(
    plan: Plan, *, account: Accounting
) -> tuple[dict[str, Any] | None, str]:
    """The composition of all planned trials but exempt baselines (the fields of a
    `PlanTotal` as JSON), and a sentence about it; None where nothing is spent.
    """
    trials = [trial for trial in plan.to_run if not trial.is_exempt]
    if not trials:
        return None, ""
    mechanisms = [account(trial.config).mechanism for trial in trials]
    delta = min(mechanism.delta for mechanism in mechanisms)
    key = key_of(*mechanisms, together=True, delta=delta)

    def compose() -> PlanTotal:
        starts = once(start for mechanism in mechanisms for start in mechanism.starts)
        from trainables.dp.accounting.certification import certify, with_risk

        own = (release_of(mechanism) for mechanism in mechanisms)
        releases = [*starts.values(), *own]
        spent = certify(releases, delta=delta, effort="total")
        return PlanTotal.model_validate(asdict(with_risk(spent, releases)))

    found = account.figures.recall(key, _TOTAL, compose)
    baselines = len(plan.to_run) - len(trials)
    without = f", without {formats.count(baselines, 'baseline')}" if baselines else ""
    subject = f"All {len(trials)} trials together" if len(trials) > 1 else "The trial"
    about = (
        f"{subject}{without}: epsilon {format_epsilon(found.epsilon)} at delta"
        f" {format_delta(delta)} ({found.accountant}), if nothing else is released."
    )
    risks = risk_sentences(found.max_tpr_1pct)
    return found.model_dump(mode="json"), " ".join((about, *risks))

"""Prices of trials, and the check of a data set's total."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from sweep.planning.accounting import Accounting
from sweep.spending.filter import STORED, filter_of, stored_filter
from sweep.spending.ledger import Ledger, PricedTrial
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.sweeps import SweepFolder
from trainables.dp.accounting.composition import RdpFilter
from trainables.dp.accounting.releases import release
from trainables.dp.mechanism import Mechanism
from trainables.errors import InvalidData


def price(trials: Sequence[PlannedTrial], account: Accounting) -> list[PricedTrial]:
    """Those of `trials` that run, each with its mechanism and its data set, whose
    records are registered in the home (`Accounting.registered_data`).

    Raises: InvalidInput for data that cannot be used, or a mechanism that is refused.
    """
    found = []
    for trial in trials:
        if trial.runs:
            data = account.registered_data(trial.config)
            priced = PricedTrial(
                trial=trial,
                mechanism=account.mechanism(trial.config),
                dataset=data.fingerprint,
                dataset_name=data.name,
            )
            found.append(priced)
    return found


def with_certified_noise(plan: Plan, account: Accounting) -> Plan:
    """The plan with the noise multiplier that each trial will train with. A plan may
    take that of a target epsilon from the cache; here it is computed and certified.

    Raises: InvalidInput for a mechanism that is refused.
    """
    trials = list(plan.trials)
    for place, trial in enumerate(trials):
        if trial.runs:
            noise = account.mechanism(trial.config).noise_multiplier
            trials[place] = replace(trial, noise_multiplier=noise)
    return replace(plan, trials=tuple(trials))


def require_total(
    priced: Sequence[PricedTrial], ledger: Ledger, *, budget_total: float
) -> None:
    """Require the trials of a sweep, together with what all sweeps have spent on the
    same records, to stay within `budget_total`, an epsilon. Exempt baselines do not
    count.

    Raises: InvalidInput naming what is spent and what the trials would raise it to.
    """
    planned: dict[str, list[Mechanism]] = {}
    for each in priced:
        if not each.trial.is_exempt:
            planned.setdefault(each.dataset, []).append(each.mechanism)
    for fingerprint, mechanisms in planned.items():
        ledger.require_within(
            fingerprint,
            [release(mechanism) for mechanism in mechanisms],
            budget_total=budget_total,
            delta=min(mechanism.delta for mechanism in mechanisms),
        )


def fixed_filter(folder: SweepFolder, ledger: Ledger) -> RdpFilter | None:
    """The filter of the sweep's total, where its trials depend on results. It is fixed
    at the first call, before any trial: later ones return the same.

    Raises: InvalidInput as `stored_filter`, and where trials have run and none was
    fixed.
    """
    kept = stored_filter(folder)
    kept = kept or filter_of(folder.space(), folder.plan().filter_delta)
    if kept is not None and STORED not in folder.about():
        if ledger.of_sweep(folder.ledger_name):
            raise InvalidData(
                f"expected the filter of budget.total in the log of {folder.name},"
                f" where it was"
                " fixed before the first trial, got none: restore the file from a copy"
            )
        folder.note(**{STORED: asdict(kept)})
    return kept

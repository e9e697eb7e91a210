"""The gate of a sweep on disk: its limits from the space, its spend from the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweep.spending.entries import Entry
from sweep.spending.gate import SpendGate
from sweep.spending.ledger import Ledger
from sweep.spending.priced_trial import PricedTrial
from sweep.spending.time_spent import TimeSpent
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from trainables.accountants import RdpFilter


@dataclass(frozen=True)
class LedgerAccount:
    """Charges to the ledger. `budget_total` bounds the epsilon of all sweeps together on a data
    set, without exempt baselines; None: no bound.
    """

    ledger: Ledger
    budget_total: float | None = None

    def charge(self, entry: Entry) -> str | None:
        """Write the entry into the ledger, unless the data set's total would be exceeded."""
        if self.budget_total is None or entry.is_exempt:
            self.ledger.charge(entry)
            return None
        return self.ledger.charge_within(entry, budget_total=self.budget_total)

    def refusal(self, entry: Entry) -> str | None:
        """The reason why the data set's total does not permit the entry, or None."""
        if self.budget_total is None or entry.is_exempt:
            return None
        try:
            self.ledger.require_within(
                entry.dataset,
                [entry.release],
                budget_total=self.budget_total,
                delta=entry.delta,
            )
        except InvalidInput as problem:
            return str(problem)
        return None


def unpaid(trial_id: str, epochs_done: int, entries: Iterable[Entry]) -> list[int]:
    """The epochs of a trial, from 0, that no entry of its sweep covers."""
    paid = {
        e
        for each in entries
        if each.trial == trial_id
        for e in range(each.first_epoch, each.epochs)
    }
    return sorted(set(range(epochs_done)) - paid)


def require_paid(folder: SweepFolder, trials: Iterable[PricedTrial], *, ledger: Ledger) -> None:
    """Require an entry of the ledger for each epoch on disk: without it (a lost or older ledger, a
    sweep from another home) the sweep would spend its budget again.

    Raises: InvalidInput naming a trial.
    """
    records = {record.plan.id: record for record in folder.records(running=False)}
    entries = ledger.of_sweep(folder.ledger_name)
    for each in trials:
        record = records[each.trial.id]
        if not each.mechanism.is_free and unpaid(record.plan.id, record.epochs_done, entries):
            raise InvalidInput(
                f"expected the ledger to have every epoch of {folder.name}, got none for some of"
                f" trial {record.plan.id}: restore the ledger from a copy, or charge them again"
                " (`sweep ledger --check --repair`)"
            )


def open_gate(
    folder: SweepFolder,
    trials: Iterable[PricedTrial],
    *,
    ledger: Ledger,
    total_filter: RdpFilter | None = None,
    budget_total: float | None = None,
) -> SpendGate:
    """The gate of a sweep in the state of its folder and the ledger."""
    name = folder.ledger_name
    records = folder.records(running=False)
    priced = list(trials)
    return SpendGate(
        name,
        priced,
        budget=folder.space().budget,
        account=LedgerAccount(ledger, budget_total),
        total_filter=total_filter,
        spent=ledger.of_sweep(name),
        ended=[record.plan.id for record in records if record.status.is_over],
        time=TimeSpent(
            before=folder.seconds_run(),
            of_trials={record.plan.id: record.seconds for record in records},
            gpus={each.trial.id: each.gpus for each in priced},
        ),
    )

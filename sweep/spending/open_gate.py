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
    set, without baselines; None: no bound.
    """

    ledger: Ledger
    budget_total: float | None = None

    def charge(self, entry: Entry) -> str | None:
        """Write the entry into the ledger, unless the data set's total would be exceeded."""
        if self.budget_total is None or entry.baseline:
            self.ledger.charge(entry)
            return None
        return self.ledger.charge_within(entry, budget_total=self.budget_total)

    def refusal(self, entry: Entry) -> str | None:
        """The reason why the data set's total does not permit the entry, or None."""
        if self.budget_total is None or entry.baseline:
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

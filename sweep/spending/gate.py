"""The spend gate, which charges every epoch before it permits it.

The gate has the price of each trial and the spend so far. An `Account` records a charge, or refuses
it; only then is the epoch permitted. `open_gate` has its limits from the space of a sweep and its
spend from the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from search_spaces.parts import Budget
from sweep.spending.budget import TimeSpent, TotalBudget, epsilon_refusal, time_refusal
from sweep.spending.entries import Entry, PricedTrial, attempt_key, entry_for
from trainables.accountants import Release, epsilon_sweep, release
from trainables.privacy.rounding import format_epsilon

if TYPE_CHECKING:
    from trainables.accountants import RdpFilter
from typing import TYPE_CHECKING

from sweep.spending.ledger import Ledger
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput


class Account(Protocol):
    """Records entries. Both methods return None, or the reason why an entry is refused."""

    def charge(self, entry: Entry) -> str | None:
        """Write the entry down before this returns None."""

    def refusal(self, entry: Entry) -> str | None:
        """The result of `charge`, without writing."""


@dataclass
class _Attempt:
    """The present attempt at a trial: its entries of the ledger start at `first_epoch`."""

    number: int
    first_epoch: int
    earlier: list[Release]  # what earlier attempts have spent


class SpendGate:
    """The gate of the trials of one sweep, whose name in the ledger is `sweep`. Not for several
    threads. An answer is the reason of a refusal, or None.

    `spent` are the sweep's entries so far, `ended` the trials that spend no more. With
    `total_filter` the budget's total holds for adaptively chosen trials.
    """

    def __init__(
        self,
        sweep: str,
        trials: Iterable[PricedTrial],
        *,
        budget: Budget,
        account: Account,
        total_filter: RdpFilter | None = None,
        spent: Iterable[Entry] = (),
        ended: Iterable[str] = (),
        time: TimeSpent | None = None,
    ) -> None:
        self._sweep = sweep
        self._trials = {priced.trial.id: priced for priced in trials}
        self._budget = budget
        self._total = (
            None if budget.total is None else TotalBudget(budget.total, filter_=total_filter)
        )
        self._account = account
        self._ended = set(ended)
        self.time = time or TimeSpent()
        self._spent: dict[str, dict[tuple[str, int, int], Entry]] = {}
        self._attempts: dict[str, _Attempt] = {}
        for entry in spent:
            self._count(entry)
        self._last_attempt = {
            trial_id: max(entry.attempt for entry in entries.values())
            for trial_id, entries in self._spent.items()
        }

    def add(self, priced: PricedTrial) -> None:
        """Add a trial that was chosen while the sweep runs."""
        self._trials[priced.trial.id] = priced
        self.time.expect(priced.trial.id, gpus=priced.gpus)

    def priced_trial(self, trial_id: str) -> PricedTrial:
        """The trial of this id, with its price."""
        return self._trials[trial_id]

    def attempt_of(self, trial_id: str) -> int:
        """The number of the present attempt at a trial."""
        return self._attempts[trial_id].number

    def begin(self, trial_id: str, *, attempt: int, epochs_done: int) -> str | None:
        """Charge the epoch after `epochs_done` to a trial, as attempt number `attempt` of this run
        of the sweep.
        """
        if (reason := self.time_is_up()) is not None:
            return reason
        begun = self._attempt(trial_id, attempt=attempt, epochs_done=epochs_done)
        self._attempts[trial_id] = begun
        return self._charge(self._trials[trial_id], begun, epochs_done)

    def go_on(self, trial_id: str, *, epochs_done: int, stop: str = "") -> str | None:
        """Charge another epoch to a trial that has trained `epochs_done` epochs. `stop`: the reason
        why it ends in any case, so that nothing more is charged.
        """
        attempt = self._attempts[trial_id]
        if epochs_done < attempt.first_epoch:
            # A checkpoint may be older than the last recorded epoch; repeated epochs are charged
            # again, beside all that was charged before.
            attempt.first_epoch = epochs_done
            attempt.earlier = [entry.release for entry in self._spent.get(trial_id, {}).values()]
        reason = stop or self.time_is_up()
        if reason is not None:
            return reason
        return self._charge(self._trials[trial_id], attempt, epochs_done)

    def end(self, trial_id: str) -> None:
        """End a trial, which spends no more."""
        self._ended.add(trial_id)

    def reopen(self, trial_id: str) -> None:
        """Reopen an ended trial, which then counts as one that has begun."""
        self._ended.discard(trial_id)

    def time_is_up(self) -> str | None:
        """The reason why no further trial may begin, whatever its cost, or None."""
        return time_refusal(
            self._budget,
            seconds=self.time.seconds,
            accelerator_hours=self.time.accelerator_hours,
        )

    def refusal(self, *others: PricedTrial) -> str | None:
        """The reason why other trials may not begin, or None. All their epochs and the remaining
        epochs of the trials that have begun must fit into the sweep's total.
        """
        counted = [priced for priced in others if not priced.trial.is_exempt]
        if self._total is None or not counted:
            return None
        unended = [
            priced.mechanism
            for priced in (*self._trials.values(), *counted)
            if not priced.trial.is_exempt and priced.trial.id not in self._ended
        ]
        spent = [
            entry.release
            for trial_id in self._ended
            if not self._is_exempt(trial_id)
            for entry in self._spent.get(trial_id, {}).values()
        ]
        delta = min(mechanism.delta for mechanism in unended)
        return self._total.refusal_of([*spent, *map(release, unended)], delta=delta)

    def continuation_refusal(self, trial_id: str, *, epochs_done: int) -> str | None:
        """The reason why a stopped trial may not continue after `epochs_done` epochs, or None.
        Nothing is charged.
        """
        attempt = self._attempt(trial_id, attempt=1, epochs_done=epochs_done)
        priced = self._trials[trial_id]
        entry = self._entry(priced, attempt, epochs_done)
        return (
            self.time_is_up()
            or self._over_budget(priced, attempt, entry)
            or self._account.refusal(entry)
        )

    def _attempt(self, trial_id: str, *, attempt: int, epochs_done: int) -> _Attempt:
        number = self._last_attempt.get(trial_id, 0) + attempt
        entries = self._spent.get(trial_id, {}).values()
        paid = sorted(epoch for e in entries for epoch in range(e.first_epoch, e.epochs))
        # Where earlier attempts and one from `epochs_done` on make the planned trial (every epoch
        # once), it costs as much as without interruption.
        whole = paid == list(range(epochs_done))
        earlier = [] if whole else [entry.release for entry in entries]
        return _Attempt(number=number, first_epoch=epochs_done, earlier=earlier)

    def _charge(self, priced: PricedTrial, attempt: _Attempt, done: int) -> str | None:
        """Charge the epoch after `done`, unless it may not be spent."""
        if done >= priced.trial.epochs or priced.mechanism.is_free:
            return None
        entry = self._entry(priced, attempt, done)
        reason = self._over_budget(priced, attempt, entry) or self._account.charge(entry)
        if reason is None:
            self._count(entry)
        return reason

    def _count(self, entry: Entry) -> None:
        key = attempt_key(entry)
        entries = self._spent.setdefault(entry.trial, {})
        if key in entries and entries[key].epochs > entry.epochs:
            return
        entries[key] = entry
        if self._total is not None and not self._is_exempt(entry.trial):
            self._total.charge(key, entry.release, delta=entry.delta)

    def _entry(self, priced: PricedTrial, attempt: _Attempt, done: int) -> Entry:
        """The ledger's entry of an attempt once the epoch after `done` is permitted."""
        return entry_for(
            priced.mechanism,
            dataset=priced.dataset,
            dataset_name=priced.dataset_name,
            sweep=self._sweep,
            trial=priced.trial.id,
            attempt=attempt.number,
            first_epoch=attempt.first_epoch,
            epochs=done + 1,
            baseline=priced.trial.is_exempt,
        )

    def _is_exempt(self, trial_id: str) -> bool:
        """Whether a trial is exempt; one that the plan no longer has is not."""
        return trial_id in self._trials and self._trials[trial_id].trial.is_exempt

    def _over_budget(self, priced: PricedTrial, attempt: _Attempt, entry: Entry) -> str | None:
        """The reason why an entry does not fit into the trial's budget or the sweep's total."""
        if priced.trial.is_exempt:
            return None
        reason = self._over_epsilon(priced, attempt, entry)
        if reason is not None or self._total is None:
            return reason
        return self._total.refusal(attempt_key(entry), entry.release, delta=entry.delta)

    def _over_epsilon(self, priced: PricedTrial, attempt: _Attempt, entry: Entry) -> str | None:
        budget, trial = self._budget, priced.trial
        if budget.epsilon is None:
            return None
        if attempt.earlier and budget.accountant != "paper":  # which knows no repeated epochs
            # Epochs of an earlier attempt after its last kept one are spent too.
            spent = epsilon_sweep([*attempt.earlier, entry.release], delta=entry.delta).epsilon
            if spent <= budget.epsilon:
                return None
            return (
                f"epsilon {format_epsilon(spent)} with earlier attempts exceeds"
                f" budget.epsilon={budget.epsilon:g}"
            )
        if trial.epsilon_budget is not None and trial.epsilon_budget <= budget.epsilon:
            return None  # the plan has admitted all its epochs
        return epsilon_refusal(budget, priced.mechanism, entry.epochs - 1)


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

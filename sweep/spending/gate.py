"""The spend gate, which charges every epoch before it permits it, and the budgets that
it holds: epsilon a trial, a total of all trials. `sweep.planning.plan` refuses trials
over budget before anything starts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any

from search_spaces.parts import Budget
from sweep.spending.ledger import Entry, Ledger, PricedTrial, attempt_key
from sweep.spending.taken_over import entries_of
from sweep.store.state import SweepState
from sweep.store.sweeps import SweepFolder
from trainables import formats
from trainables.dp.accounting import choose
from trainables.dp.accounting.accountants import paper_zcdp
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.composition import Account, RdpFilter
from trainables.dp.accounting.releases import Release, once, release
from trainables.dp.accounting.rounding import format_epsilon
from trainables.dp.mechanism import Mechanism
from trainables.errors import CannotAnalyze


def epsilon_refusal(
    budget: Budget, mechanism: Mechanism, epochs_done: int
) -> str | None:
    """The reason why epoch number `epochs_done` + 1 may not be trained; None if and
    only if epsilon at its end is within `budget.epsilon`. After the last epoch nothing
    is spent, so None.

    Any valid upper bound within the limit permits, also of all epochs, by which a plan
    admits a trial: then no epoch of it is refused. Quick ones are tried first, and the
    exact figure decides.
    """
    if epochs_done == mechanism.epochs or budget.epsilon is None:
        return None
    smallest = float("inf")
    try:
        for figure in _figures(budget.accountant, mechanism, epochs_done + 1):
            smallest = min(smallest, figure)
            if smallest <= budget.epsilon:
                return None
    except CannotAnalyze as error:
        return f"no epsilon to hold against budget.epsilon: {error}"
    return (
        f"epsilon {format_epsilon(smallest)} ({budget.accountant}) after"
        f" {formats.count(epochs_done + 1, 'epoch')} exceeds"
        f" budget.epsilon={budget.epsilon:g}"
    )


def _figures(accountant: str, mechanism: Mechanism, epochs: int) -> Iterator[float]:
    """Upper bounds of epsilon after `epochs` epochs, those of all epochs first, which
    are computed once for a trial. None is read from a plan.
    """
    stopped = mechanism.first(epochs)
    whole, done = release(mechanism), release(stopped)
    if accountant == "paper":
        yield paper_zcdp.epsilon(stopped, delta=stopped.delta)
    elif accountant == "sound":
        yield certify(whole, delta=mechanism.delta, effort="plan").epsilon
        yield certify(whole, delta=mechanism.delta, effort="running").epsilon
        yield certify(done, delta=mechanism.delta, effort="running").epsilon
        yield certify(done, delta=mechanism.delta).epsilon
    else:
        for what in (whole, done):
            yield choose.certify_by(accountant, what, delta=mechanism.delta).epsilon


def total_refusal(
    account: Account,
    limit: float,
    more: Mapping[Any, Release | None],
    *,
    delta: float,
    noun: str = "",
) -> str | None:
    """The reason why `more` does not fit into `budget.total`, or None. `noun`: what the
    releases are, where one is asked for; default all trials.
    """
    spend = account.over(limit, more, delta=delta)
    if spend is None:
        return None
    others, beside = account.num_beside(more), "alone" if noun else "of all trials"
    if others and noun:
        beside = f"with the {formats.count(others, noun)} before it"
    if account.filter is None:
        return f"epsilon {format_epsilon(spend.epsilon)} {beside} exceeds budget.total={limit:g}"
    mixed = "; ".join(spend.unaccounted)
    return mixed or f"budget.total={limit:g} has no room for it {beside} (filter)"


@dataclass
class SpendGate:
    """The gate of the trials of one sweep, whose name in the ledger is `sweep`. Not for
    several threads. An answer is the reason of a refusal, or None; so is that of
    `charge`, which writes an entry down before it permits (`Ledger.charge`). `trials`
    are by id; one that is over in the sweep's `state` spends no more. `spent` are the
    sweep's entries so far. With `total_filter` the budget's total holds for adaptively
    chosen trials.
    """

    sweep: str
    trials: dict[str, PricedTrial]
    budget: Budget
    charge: Callable[[Entry], str | None]
    total_filter: InitVar[RdpFilter | None] = None
    spent: InitVar[Iterable[Entry]] = ()
    state: Callable[[], SweepState] = SweepState

    def __post_init__(
        self, total_filter: RdpFilter | None, spent: Iterable[Entry]
    ) -> None:
        self._total = Account(total_filter)
        self._spent: dict[str, dict[tuple[str, int, int], Entry]] = {}
        self._attempts: dict[str, tuple[int, int]] = {}  # number and first epoch
        for entry in spent:
            self._count(entry)

    def begin(
        self, trial_id: str, *, attempt: int, epochs_done: int, stop: str = ""
    ) -> str | None:
        """Charge the epoch after `epochs_done` to a trial, as attempt number `attempt`
        of this run of the sweep. `stop`: the reason why it trains no further epoch, so
        that none is charged.
        """
        number = max(
            [attempt, *(e.attempt + 1 for e in self._spent.get(trial_id, {}).values())]
        )
        self._attempts[trial_id] = number, epochs_done
        if stop:
            return None
        return self._charge(trial_id, number, epochs_done, epochs_done)

    def go_on(self, trial_id: str, *, epochs_done: int, stop: str = "") -> str | None:
        """Charge another epoch to a trial that has trained `epochs_done` epochs.
        `stop`: the reason why it ends in any case, so that nothing more is charged.
        """
        number, first = self._attempts[trial_id]
        # A checkpoint may be older than the last recorded epoch; repeated epochs are
        # charged again, beside all that was charged before.
        first = min(first, epochs_done)
        return stop or self._charge(trial_id, number, first, epochs_done)

    def take_over(self, entries: Sequence[Entry]) -> str | None:
        """Count what another sweep was charged for one trial that is shown here, too;
        or the reason why it does not fit into the sweep's total, and is not counted.
        """
        reason = self.refusal(taken=entries)
        if reason is None:
            for entry in entries:
                self._count(entry)
        return reason

    def refusal(self, *others: PricedTrial, taken: Iterable[Entry] = ()) -> str | None:
        """The reason why other trials may not begin, or what another sweep has `taken`
        for one may not be shown, or None. All their epochs and those of the trials that
        have begun must fit into the sweep's total, beside what others have spent.
        """
        counted = [priced for priced in others if not priced.trial.is_exempt]
        taken = [entry for entry in taken if not entry.is_exempt]
        if self.budget.total is None or not (counted or taken):
            return None
        more: dict[Any, Release | None] = {}
        delta, state = 1.0, self.state()
        for each in (*self.trials.values(), *counted):
            if not each.trial.is_exempt and not state.trial(each.trial.id).is_over:
                more |= dict.fromkeys(self._spent.get(each.trial.id, {}))
                more |= once(each.mechanism.starts)
                more[each.trial.id] = release(each.mechanism)
                delta = min(delta, each.mechanism.delta)
        for entry in taken:
            more |= once(entry.starts)
            more[attempt_key(entry)] = entry.release
            delta = min(delta, entry.delta)
        return total_refusal(self._total, self.budget.total, more, delta=delta)

    def _charge(self, trial_id: str, number: int, first: int, done: int) -> str | None:
        self._attempts[trial_id] = number, first
        priced = self.trials[trial_id]
        if done >= priced.trial.epochs or priced.mechanism.is_free:
            return None
        entry = priced.entry(
            sweep=self.sweep, attempt=number, first_epoch=first, epochs=done + 1
        )
        reason = self._over_budget(priced, entry) or self.charge(entry)
        if reason is None:
            self._count(entry)
        return reason

    def _count(self, entry: Entry) -> None:
        key, entries = attempt_key(entry), self._spent.setdefault(entry.trial, {})
        if key not in entries or entries[key].epochs <= entry.epochs:
            entries[key] = entry
            if not entry.is_exempt:
                for name, what in (*once(entry.starts).items(), (key, entry.release)):
                    self._total.put(name, what, delta=entry.delta)

    def _over_budget(self, priced: PricedTrial, entry: Entry) -> str | None:
        """The reason why an entry does not fit into the trial's budget or the sweep's
        total.
        """
        budget, trial = self.budget, priced.trial
        if trial.is_exempt:
            return None
        key = attempt_key(entry)
        if budget.epsilon is not None:
            spent = {**self._spent.get(trial.id, {}), key: entry}.values()
            epochs = [
                epoch
                for each in spent
                for epoch in range(each.first_epoch, each.epochs)
            ]
            # Attempts that make the planned trial (every epoch once) cost as much as
            # without interruption; the paper's figure knows no repeated epochs.
            if len(set(epochs)) < len(epochs) and budget.accountant != "paper":
                releases = [*once(entry.starts).values(), *(e.release for e in spent)]
                found = certify(releases, delta=entry.delta, effort="total").epsilon
                if found > budget.epsilon:
                    return (
                        f"epsilon {format_epsilon(found)} with earlier attempts exceeds"
                        f" budget.epsilon={budget.epsilon:g}"
                    )
            else:
                reason = epsilon_refusal(budget, priced.mechanism, entry.epochs - 1)
                if reason is not None:
                    return reason
        if budget.total is None:
            return None
        more: dict[Any, Release | None] = {**once(entry.starts), key: entry.release}
        return total_refusal(
            self._total, budget.total, more, delta=entry.delta, noun="attempt"
        )


def open_gate(
    folder: SweepFolder,
    trials: Iterable[PricedTrial],
    *,
    ledger: Ledger,
    total_filter: RdpFilter | None = None,
    budget: Budget | None = None,
) -> SpendGate:
    """The gate of a sweep in the state of its folder and the ledger, with the `budget`,
    by default that of its space. `trials` are those that may begin; `total_filter` is
    that of `fixed_filter`.
    """
    name = folder.ledger_name
    return SpendGate(
        sweep=name,
        trials={priced.trial.id: priced for priced in trials},
        budget=budget or folder.space().budget,
        charge=partial(ledger.charge, budget_total=folder.budget_total),
        total_filter=total_filter,
        spent=entries_of(folder, ledger),
        state=folder.state,
    )

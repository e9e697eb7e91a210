"""The ledger: the releases of every trial of every sweep, by data set; and the price of
a trial.

An entry is written before its release, so a crash can only charge too much. A data set
that shares records with an earlier one carries the earlier one's spend, because a
release on either is a release about the shared records.

A private selection is charged once, as a whole, before any trial starts; and with the
composition of its trials once they are unsealed, where that costs more: what was paid
never falls.
"""

import math
import time
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from sweep.spending.home_key import HomeKey
from sweep.store.chained_log import ChainedLog
from sweep.store.data_sets import TrainingData
from sweep.store.plans import PlannedTrial
from trainables.dp.accounting.certification import Certificate, certify, with_risk
from trainables.dp.accounting.composition import Account
from trainables.dp.accounting.releases import (
    BestOf,
    Parts,
    Release,
    Start,
    Training,
    Unaccounted,
    release,
)
from trainables.dp.accounting.rounding import format_epsilon
from trainables.dp.mechanism import Mechanism
from trainables.errors import InvalidData, InvalidInput

FILE = "ledger.jsonl"  # under the sweeps' home
SELECTION = "selection"  # instead of a trial's id
_ADVICE = (
    "restore the ledger's .jsonl and .head from a copy, or move both away and charge"
    " what is on the disk again (`sweep ledger --check --repair`)"
)
_DELTA = 1e-5  # where nothing was charged


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Epochs `first_epoch` to `epochs` - 1 of one attempt at one trial, charged to a
    data set.

    Entries of one attempt replace each other; the furthest counts. A resumed trial is a
    new attempt. Its repeated epochs are charged again, since their first outcome may
    have been seen.
    """

    # In the order in which the ledger has them.
    dataset: str  # `HomeKey.name_of`; before it is written the plain fingerprint
    dataset_name: str = ""  # for people
    sweep: str  # `SweepFolder.ledger_name` at the time of the charge
    trial: str
    attempt: int = 1
    first_epoch: int = 0
    epochs: int
    delta: float
    at: float = 0.0  # seconds since 1970
    # Of its sweep: without noise, exempt from user-defined totals.
    baseline: bool = False
    # Exports of the data set's records that the trial reads; they were charged to their
    # own trials.
    starts: tuple[Start, ...] = ()
    release: Annotated[Release, Field(discriminator="kind")]

    @property
    def sweep_id(self) -> str:
        """Of the sweep, whatever its folder is called."""
        return sweep_id_in(self.sweep)

    @property
    def covers_all(self) -> bool:
        """Whether it pays for all that was shown of any record. Entries of earlier
        versions, and of trials that cover the training records, do not: figures of
        validation and test records were shown beside them, which no epsilon covers.
        """
        return isinstance(self.release, Parts) or self.release.is_nothing

    @property
    def is_exempt(self) -> bool:
        """Whether totals leave it out. A finite cost is a private engine's, which
        always counts.
        """
        return self.baseline and bool(self.release.reasons)


ENTRY = TypeAdapter(Entry)


def entry_for(
    mechanism: Mechanism, *, epochs: int, first_epoch: int = 0, **who: Any
) -> Entry:
    """The entry that charges a mechanism's epochs `first_epoch` to `epochs` - 1. `who`:
    the other fields of an entry; the first attempt by default.

    Raises: InvalidInput unless 0 <= first_epoch < epochs <= the mechanism's.
    """
    if first_epoch >= epochs:
        raise InvalidInput(
            f"expected first_epoch < epochs, got first_epoch={first_epoch},"
            f" epochs={epochs}"
        )
    return Entry(
        **who,
        first_epoch=first_epoch,
        epochs=epochs,
        delta=mechanism.delta,
        starts=mechanism.starts,
        release=release(mechanism, first=first_epoch, last=epochs),
    )


def sweep_id_in(ledger_name: str) -> str:
    """The id in a sweep's name in the ledger.

    >>> sweep_id_in("renamed@0123abcd") == sweep_id_in("grid@0123abcd")
    True
    """
    return ledger_name.rpartition("@")[2]


def attempt_key(entry: Entry) -> tuple[str, int, int]:
    """A key of entries that replace each other; the furthest counts."""
    return entry.trial, entry.attempt, entry.first_epoch


@dataclass(frozen=True, kw_only=True)
class PricedTrial:
    """A planned trial with the mechanism that it is charged by and the data set that it
    is charged to: the `dataset`'s fingerprint, and its name for people.
    """

    trial: PlannedTrial
    mechanism: Mechanism
    dataset: str
    dataset_name: str

    def entry(self, **where: Any) -> Entry:
        """The entry that charges epochs of the trial; as `entry_for`. `where`: the name
        of the sweep in the ledger, and the numbers of the attempt and the epochs.
        """
        return entry_for(
            self.mechanism,
            dataset=self.dataset,
            dataset_name=self.dataset_name,
            trial=self.trial.id,
            baseline=self.trial.is_exempt,
            **where,
        )


@dataclass(frozen=True, kw_only=True)
class Spend:
    """The spend of one data set.

    `total` composes everything, `accounted` leaves out the `num_unaccounted` releases
    that have no finite epsilon, `by_unit` composes those of each unit of privacy
    ("record", "group", "couple"), which is finite where the total of records and groups
    is not. `shared` names the other data sets whose spend is carried, with the number
    of shared records; `recognised` is False where the data set's records were never
    registered, so that nothing could be carried. `total` is about every record of the
    data set where `covers` is "all", else about the records that are trained on:
    `training_only` names the sweeps that show or choose by raw figures of the others.
    `by_part` has what each part costs alone, by one split, of which `total` is the
    dearest.
    """

    dataset: str
    dataset_name: str
    total: Certificate
    accounted: Certificate
    num_trials: int
    num_unaccounted: int
    sweeps: tuple[str, ...]
    shared: dict[str, int]
    recognised: bool
    by_unit: dict[str, Certificate]
    covers: str
    training_only: tuple[str, ...]
    by_part: dict[str, Certificate]


class Ledger:
    """The ledger at `path`, with the secret key of its home (`.key`), which names data
    sets, and record hashes (`.records`) beside it.

    It reads new entries before each query, and no entry twice. Safe for several
    processes and sweeps at once, not for several threads.

    Raises: InvalidData by every reading method, for a damaged ledger.
    """

    def __init__(self, path: Path) -> None:
        self._log = ChainedLog(path, ENTRY, advice=_ADVICE)
        self.key = HomeKey(path.with_suffix(".key"))
        # The furthest of each attempt at a trial.
        self._entries: dict[Hashable, Entry] = {}
        # Of data sets that share records.
        self._accounts: dict[frozenset[str], Account] = {}

    def charge(self, entry: Entry, *, budget_total: float | None = None) -> str | None:
        """Write an entry; it is on the disk when this returns None. Only then release.

        Where the data set's total in all sweeps would exceed `budget_total`, the reason
        is returned and nothing written. No other process charges in between, so
        concurrent sweeps never exceed the total together. Baselines do not count.
        """
        self._log.path.parent.mkdir(parents=True, exist_ok=True)
        with self._log.alone():
            self._read_new()
            named = replace(
                entry,
                dataset=self.key.name_of(entry.dataset),
                at=entry.at or time.time(),
            )
            if budget_total is not None and not named.is_exempt:
                more = (
                    {charge_key(named): named.release}
                    if self._is_further(named)
                    else {}
                )
                spend = self._account(named.dataset).over(
                    budget_total, more, delta=named.delta, exact=True
                )
                if spend is not None:
                    return (
                        f"epsilon {format_epsilon(spend.epsilon)} of the data set in"
                        f" all sweeps"
                        f" exceeds --budget-total {budget_total:g}{_because(spend)}"
                    )
            self._log.append(named)
        return None

    def entries(self) -> list[Entry]:
        """All entries, oldest first, read anew."""
        return ChainedLog(self._log.path, ENTRY, advice=_ADVICE).read_new()

    def of_sweep(self, sweep: str) -> list[Entry]:
        """A sweep's entries under any of its names, the furthest of each attempt at a
        trial.
        """
        self._read_new()
        return [e for e in self._entries.values() if e.sweep_id == sweep_id_in(sweep)]

    def datasets(self) -> tuple[str, ...]:
        """Names of all charged data sets, in order of their first charge."""
        self._read_new()
        return tuple(
            dict.fromkeys(self.key.name_of(e.dataset) for e in self._entries.values())
        )

    def without_hashes(self) -> list[str]:
        """Names of the charged data sets whose records' hashes are not stored, so that
        nothing tells with which others they share records.
        """
        return [name for name in self.datasets() if not self.key.is_registered(name)]

    def require_hashes(self) -> None:
        """Raises: InvalidData for a charged data set without hashes: a total may lack
        its spend.
        """
        if lost := self.without_hashes():
            raise InvalidData(
                f"expected the hashes of the records of data set {lost[0][:12]} in"
                f" {self.key.folder}, got none: restore the file from a copy, or make"
                " it again from the data (`sweep ledger --check --repair`)"
            )

    def spend(self, fingerprint: str, *, delta: float | None = None) -> Spend:
        """The composition of all releases about a data set's records, at `delta`
        (default: the smallest of its entries', or 1e-5).
        """
        self._read_new()
        name, shared = self.key.name_of(fingerprint), self.key.overlaps(fingerprint)
        counted = self._about({name, *shared})
        at = delta or min((entry.delta for entry in counted), default=_DELTA)
        return Spend(
            dataset=name,
            dataset_name=next((e.dataset_name for e in self._about({name})), ""),
            shared=shared,
            recognised=self.key.is_registered(fingerprint),
            **_composed(counted, delta=at),
        )

    def by_sweep(self, fingerprint: str, *, delta: float | None = None) -> list[Spend]:
        """As `spend`, of each sweep on these records alone, at one delta."""
        whole = self.spend(fingerprint, delta=delta)
        counted = self._about({whole.dataset, *whole.shared})
        own: dict[str, list[Entry]] = {}
        for entry in counted:
            own.setdefault(entry.sweep_id, []).append(entry)
        at = whole.total.delta
        return [replace(whole, **_composed(e, delta=at)) for e in own.values()]

    def require_within(
        self,
        fingerprint: str,
        planned: Sequence[Release],
        *,
        budget_total: float,
        delta: float = _DELTA,
    ) -> None:
        """Require past and planned releases together, without baselines, to stay within
        `budget_total`, at the smallest delta of any: `delta` is that of the planned
        ones.

        Raises: InvalidInput where they do not.
        """
        self._read_new()
        account = self._account(fingerprint)
        spend = account.over(
            budget_total, dict(enumerate(planned)), delta=delta, exact=True
        )
        if spend is not None:
            spent = account.total(delta=spend.delta).epsilon
            raise InvalidInput(
                f"expected the data set's total epsilon to stay within {budget_total:g}"
                f" (delta {spend.delta:g}): {format_epsilon(spent)} is spent, and the"
                f" {len(planned)} planned trials would raise it to"
                f" {format_epsilon(spend.epsilon)}{_because(spend)}"
            )

    def beside(self, entry: Entry) -> list[Entry]:
        """What other sweeps have charged to the entry's data set, without exempt
        baselines.
        """
        self._read_new()
        names = self._sharing(entry.dataset)
        return [
            e
            for e in self._about(names)
            if e.sweep_id != entry.sweep_id and not e.is_exempt
        ]

    def _is_further(self, entry: Entry) -> bool:
        """Whether none that is as far is counted."""
        before = self._entries.get(charge_key(entry))
        return before is None or before.epochs < entry.epochs

    def _read_new(self) -> None:
        new: dict[Hashable, Entry] = {}  # so that a long ledger is composed once
        for entry in self._log.read_new():
            if self._is_further(entry):
                self._entries[charge_key(entry)] = new[charge_key(entry)] = entry
        # Until all are up to date there are none: where a name has no key they are made
        # anew.
        accounts = self._accounts
        self._accounts = {}
        for names, account in accounts.items():
            _put(
                account,
                [e for e in new.values() if self.key.name_of(e.dataset) in names],
            )
        self._accounts = accounts

    def _about(self, names: Collection[str]) -> list[Entry]:
        """The entries of these data sets. Every name's key is checked, also of the
        others.
        """
        return [
            e for e in self._entries.values() if self.key.name_of(e.dataset) in names
        ]

    def _sharing(self, fingerprint: str) -> frozenset[str]:
        """The names of a data set and of those that share records with it."""
        return frozenset(
            {self.key.name_of(fingerprint), *self.key.overlaps(fingerprint)}
        )

    def _account(self, fingerprint: str) -> Account:
        """The account of a data set and of those that share records with it."""
        names = self._sharing(fingerprint)
        if names not in self._accounts:
            account = Account()
            _put(account, self._about(names))  # which raises where a key was lost
            self._accounts[names] = account
        return self._accounts[names]


def _composed(counted: Sequence[Entry], *, delta: float) -> dict[str, Any]:
    """The fields of a `Spend` that follow from its entries."""
    compose = partial(certify, delta=delta, effort="exact")
    releases = [entry.release for entry in counted]
    finite = [what for what in releases if not what.reasons]
    raw = {e.sweep_id: e.sweep for e in counted if not e.covers_all}
    parts = [what for what in finite if isinstance(what, Parts)]
    is_one_split = not raw and len({what.split for what in parts}) == 1
    by_part: dict[str, list[Training | Unaccounted]] = {
        "training": [what.training for what in parts],
        "validation or test": [what.held_out for what in parts],
    }
    return {
        "total": with_risk(compose(releases), releases),
        "accounted": compose(finite),
        "num_trials": len(
            {(e.sweep_id, e.trial) for e in counted if not e.release.is_nothing}
        ),
        "num_unaccounted": len(releases) - len(finite),
        "sweeps": tuple({e.sweep_id: e.sweep for e in counted}.values()),
        "by_unit": {
            unit: compose([what for what in finite if what.unit == unit])
            for unit in sorted({what.unit for what in releases})
        },
        "covers": "training" if raw else "all",
        "training_only": tuple(raw.values()),
        "by_part": {
            part: compose(of)
            for part, of in by_part.items()
            if is_one_split and any(not each.is_nothing for each in of)
        },
    }


def charge_key(entry: Entry) -> Hashable:
    """The data set, sweep, trial and attempt that an entry is about: of two entries with
    one key the further one counts.
    """
    return entry.dataset, entry.sweep_id, *attempt_key(entry)


def _put(account: Account, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if not entry.is_exempt:
            account.put(charge_key(entry), entry.release, delta=entry.delta)


def _because(spend: Certificate) -> str:
    return f" ({'; '.join(spend.unaccounted)})" if spend.unaccounted else ""


def selection_entry(
    release: Release, *, delta: float, data: TrainingData, sweep: str
) -> Entry:
    """The entry that charges the best trial of `sweep`, its name in the ledger, as one
    `release` about `data` at `delta`. It stands for all draws until they are unsealed.
    """
    return Entry(
        dataset=data.fingerprint,
        dataset_name=data.name,
        sweep=sweep,
        trial=SELECTION,
        epochs=1,
        delta=delta,
        release=release,
    )


def selection_charge(ledger: Ledger, sweep: str) -> Entry | None:
    """The entry of the ledger for a private selection, by the sweep's name in the
    ledger, as far as it was charged; None before it is charged at all.
    """
    return next(
        (entry for entry in ledger.of_sweep(sweep) if entry.trial == SELECTION), None
    )


def charge_composed(ledger: Ledger, entries: Sequence[Entry], *, sweep: str) -> None:
    """Charge an unsealed sweep with the `entries` of its trials, without repeating one
    that the ledger has, in an order in which a crash leaves too much charged and never
    too little.

    Where the trials cost more in the data set's total, they replace the selection. Else
    the larger of both counts (`BestOf.shown`), and the trials cost nothing beside it.
    Couples, whose relation depends on their number, are charged beside it, and so is
    everything where the selection or a trial has no finite cost. The number of trials
    is then public, but independent of the records.

    Raises: InvalidData where the ledger lacks the selection.
    """
    selection = selection_charge(ledger, sweep)
    if selection is None:
        raise InvalidData(
            f"expected the ledger's entry of {sweep}, got none: restore the ledger from"
            " a copy, or charge it again (`sweep ledger --check --repair`)"
        )
    best = selection.release
    nothing = Training(
        steps=(), neighboring_relation=best.neighboring_relation, unit=best.unit
    )
    last = replace(selection, epochs=selection.epochs + 1, release=nothing, at=0.0)
    stays, replaced = isinstance(best, BestOf) and bool(best.shown), False
    if isinstance(best, BestOf) and not stays:  # else it was decided before a crash
        shown = tuple(
            each.release for each in entries if not isinstance(each.release, BestOf)
        )
        others = ledger.beside(selection)
        delta = min(each.delta for each in (selection, *entries, *others))
        before, after = (
            certify([*(e.release for e in others), *paid], delta=delta).epsilon
            for paid in ([best], shown)
        )
        is_finite = not any(what.reasons for what in (best, *shown))
        replaced = is_finite and before <= after < math.inf
        stays = is_finite and not replaced and best.unit != "couple"
        if stays:
            ledger.charge(replace(last, release=replace(best, shown=shown)))
    known = {attempt_key(each): each.epochs for each in ledger.of_sweep(sweep)}
    for each in entries:
        if known.get(attempt_key(each), 0) < each.epochs:
            what = nothing if stays else each.release
            mine = replace(
                each, dataset=selection.dataset, sweep=selection.sweep, release=what
            )
            ledger.charge(replace(mine, at=0.0))
    if replaced:
        ledger.charge(last)

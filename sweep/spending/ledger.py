"""The ledger: the releases of every trial of every sweep, by data set.

An entry is written before its release, so a crash can only charge too much. A data set is
identified by its fingerprint's keyed hash (`home_key`). One that shares records with an earlier one
carries the earlier one's spend, because a release on either is a release about the shared records.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sweep.spending.composition import DataSetAccount
from sweep.spending.entries import ENTRY, Entry, sweep_id_in
from sweep.spending.home_key import HomeKey, RecordHashes
from sweep.store.chained_log import ChainedLog
from trainables.accountants import Release, SweepSpend, epsilon_sweep
from trainables.errors import InvalidInput
from trainables.privacy.rounding import format_epsilon

FILE = "ledger.jsonl"  # under the sweeps' home
_ADVICE = "restore the files from a copy; `sweep ledger --check` lists what is missing"
_DELTA = 1e-5  # where nothing was charged


@dataclass(frozen=True, kw_only=True)
class Spend:
    """The spend of one data set.

    `total` composes everything, `accounted` leaves out the `num_unaccounted` releases that have no
    finite epsilon. `shared` names the other data sets whose spend is carried, with the number of
    shared records; `recognised` is False where the data set's records were never registered, so
    that nothing could be carried. `by_unit` composes the releases of each unit of privacy
    ("record", "group", "couple") separately, which is finite where the total of records and groups
    is not.
    """

    dataset: str
    dataset_name: str
    total: SweepSpend
    accounted: SweepSpend
    num_trials: int
    num_unaccounted: int
    sweeps: tuple[str, ...]
    shared: dict[str, int]
    recognised: bool
    by_unit: dict[str, SweepSpend]


class Ledger:
    """The ledger at `path`, with the secret key (`.key`) and record hashes (`.records`) beside it.

    It reads new entries before each query, and no entry twice. Safe for several processes and
    sweeps at once, not for several threads.

    Raises: InvalidData by every reading method, for a damaged ledger.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = self._open_log()
        self._key = HomeKey(path.with_suffix(".key"))
        self._hashes = RecordHashes(path.with_suffix(".records"), key=self._key)
        self._accounts: dict[str, DataSetAccount] = {}  # by `Entry.dataset`, as it is written

    def _open_log(self) -> ChainedLog[Entry]:
        return ChainedLog(self._path, ENTRY, advice=_ADVICE)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock for charging, with everything read."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._log.alone():
            self._read_new()
            yield

    def name_of(self, fingerprint: str) -> str:
        """The ledger's name of a data set: its fingerprint's hash under the key of the home.

        Raises: InvalidInput unless it is a fingerprint, InvalidData where the key was lost.
        """
        return self._key.name_of(fingerprint)

    def charge(self, entry: Entry) -> None:
        """Write an entry; it is on the disk when this returns. Only then release."""
        with self._alone():
            self._append(entry)

    def charge_within(self, entry: Entry, *, budget_total: float) -> str | None:
        """As `charge`, if the data set's total stays within `budget_total`; else the reason, with
        nothing written. No other process charges in between, so concurrent sweeps never exceed the
        total together. Baselines do not count.
        """
        with self._alone():
            named = replace(entry, dataset=self.name_of(entry.dataset))
            counted = self._accounts_of(named.dataset)
            mine = self._accounts.get(named.dataset) or DataSetAccount()
            others = [account for account in counted if account is not mine]
            delta = _smallest_delta(counted, entry.delta)
            bound = mine.bound(named)
            for account in others:
                bound.merge(account.bound())
            if bound.epsilon(delta=delta) > budget_total:
                releases = [*mine.releases(named), *(r for a in others for r in a.releases())]
                together = _within(releases, delta, budget_total)
                if together.epsilon > budget_total:
                    return (
                        f"epsilon {format_epsilon(together.epsilon)} of the data set in all sweeps"
                        f" exceeds --budget-total {budget_total:g}{_because(together)}"
                    )
            self._append(entry)
        return None

    def register(self, fingerprint: str, records: Iterable[bytes]) -> int:
        """Register a data set's records, so that a later one that shares some is recognised.

        `records` are the values that two data sets can share (such as an utterance's tokens), read
        only where the fingerprint is new. Returns the number of distinct records.
        """
        return self._hashes.register(fingerprint, records)

    def entries(self) -> list[Entry]:
        """All entries, oldest first, read anew."""
        return self._open_log().read_new()

    def of_sweep(self, sweep: str) -> list[Entry]:
        """A sweep's entries under any of its names, the furthest of each attempt at a trial."""
        self._read_new()
        mine = sweep_id_in(sweep)
        return [e for a in self._accounts.values() for e in a.entries if e.sweep_id == mine]

    def accept(self) -> None:
        """Accept a damaged ledger as it is: readable entries count, the others are lost."""
        with self._log.alone():
            self._log.accept()
        self._accounts = {}

    def datasets(self) -> tuple[str, ...]:
        """Names of all charged data sets, in order of their first charge."""
        self._read_new()
        return tuple(dict.fromkeys(self.name_of(dataset) for dataset in self._accounts))

    def spend(self, fingerprint: str, *, delta: float | None = None, exact: bool = False) -> Spend:
        """The composition of all releases about a data set's records, at `delta` (default: the
        smallest that any of its trials was charged at, or 1e-5).
        """
        self._read_new()
        name, shared = self.name_of(fingerprint), self._hashes.overlaps(fingerprint)
        counted = [e for account in self._about({name, *shared}) for e in account.entries]
        mine = [e for account in self._about({name}) for e in account.entries]
        at = delta or min((entry.delta for entry in counted), default=_DELTA)
        releases = [entry.release for entry in counted]
        finite = [what for what in releases if what.is_finite]
        return Spend(
            dataset=name,
            dataset_name=mine[0].dataset_name if mine else "",
            total=epsilon_sweep(releases, delta=at, exact=exact),
            accounted=epsilon_sweep(finite, delta=at, exact=exact),
            num_trials=len({(e.sweep_id, e.trial) for e in counted if not e.release.is_nothing}),
            num_unaccounted=len(releases) - len(finite),
            sweeps=tuple({entry.sweep_id: entry.sweep for entry in counted}.values()),
            shared=shared,
            recognised=self._hashes.is_registered(fingerprint),
            by_unit={
                unit: epsilon_sweep([w for w in finite if w.unit == unit], delta=at, exact=exact)
                for unit in sorted({what.unit for what in releases})
            },
        )

    def require_within(
        self,
        fingerprint: str,
        planned: Sequence[Release],
        *,
        budget_total: float,
        delta: float | None = None,
    ) -> SweepSpend:
        """The composition of past and planned releases, without baselines, at the smallest delta
        of any: `delta` is that of the planned ones.

        Raises: InvalidInput where it would exceed `budget_total`.
        """
        self._read_new()
        counted = self._accounts_of(fingerprint)
        at = _smallest_delta(counted, *([] if delta is None else [delta]))
        before = [what for account in counted for what in account.releases()]
        together = _within([*before, *planned], at, budget_total)
        if together.epsilon > budget_total:
            spent = epsilon_sweep(before, delta=at, exact=False).epsilon
            raise InvalidInput(
                f"expected the data set's total epsilon to stay within {budget_total:g} (delta"
                f" {at:g}): {format_epsilon(spent)} is spent, and the {len(planned)} planned"
                f" trials would raise it to {format_epsilon(together.epsilon)}{_because(together)}"
            )
        return together

    def beside(self, entry: Entry) -> list[Entry]:
        """What other sweeps have charged to the entry's data set, without exempt baselines."""
        self._read_new()
        counted = (each for account in self._accounts_of(entry.dataset) for each in account.entries)
        return [e for e in counted if e.sweep_id != entry.sweep_id and not e.is_exempt]

    def _append(self, entry: Entry) -> None:
        named = replace(entry, dataset=self.name_of(entry.dataset), at=entry.at or time.time())
        self._log.append(named)

    def _read_new(self) -> None:
        for entry in self._log.read_new():
            self._accounts.setdefault(entry.dataset, DataSetAccount()).add(entry)

    def _about(self, names: set[str]) -> list[DataSetAccount]:
        """The accounts of these data sets. Every name's key is checked, also of the others."""
        return [a for dataset, a in self._accounts.items() if self.name_of(dataset) in names]

    def _accounts_of(self, fingerprint: str) -> list[DataSetAccount]:
        """The accounts of a data set and of those that share records with it."""
        return self._about({self.name_of(fingerprint), *self._hashes.overlaps(fingerprint)})


def _smallest_delta(accounts: Iterable[DataSetAccount], *others: float) -> float:
    known = [account.delta for account in accounts if account.delta is not None]
    return min([*known, *others], default=_DELTA)


def _within(releases: Sequence[Release], delta: float, limit: float) -> SweepSpend:
    """The composition; by a finer bound where a quick one is larger than `limit`."""
    quick = epsilon_sweep(releases, delta=delta, exact=False)
    return quick if quick.epsilon <= limit else epsilon_sweep(releases, delta=delta, exact=True)


def _because(spend: SweepSpend) -> str:
    return f" ({'; '.join(spend.unaccounted)})" if spend.unaccounted else ""

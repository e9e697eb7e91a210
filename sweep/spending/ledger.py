"""The ledger: what every trial of every sweep has released on which data set.

An entry is written before what it pays for is released, so a crash can only charge too much. A
data set is known by its fingerprint's keyed hash (`home_key`); one that shares records with an
earlier one carries the earlier one's spend, because a release on either is a release about the
records they share.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sweep.spending.entries import Entry, entry_from
from sweep.spending.home_key import HomeKey
from sweep.spending.record_hashes import RecordHashes
from sweep.store.append_log import AppendLog
from trainables.accountants import Release, SweepSpend, epsilon_sweep
from trainables.errors import InvalidInput

FILE = "ledger.jsonl"  # under the sweeps' home


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What has been released about the records of one data set.

    `total` composes everything, `accounted` leaves out the `num_unaccounted` releases that have no
    finite epsilon. `shared` names the other data sets whose spend is carried, and how many records
    each shares; `recognised` is False where the data set's records were never registered, so that
    nothing could be carried. `by_unit` composes the releases of each unit of privacy ("record",
    "group", "couple") by themselves, which have a finite epsilon where the total of records and
    groups has none.
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

    Safe for several processes and sweeps at once.
    """

    def __init__(self, path: Path) -> None:
        self._log = AppendLog(path)
        self._key = HomeKey(path.with_suffix(".key"))
        self._hashes = RecordHashes(path.with_suffix(".records"), key=self._key)

    def name_of(self, fingerprint: str) -> str:
        """What the ledger calls a data set: its fingerprint's hash under the key of the home.

        Raises: InvalidInput for what is no fingerprint, InvalidData where the key was lost.
        """
        return self._key.name_of(fingerprint)

    def charge(self, entry: Entry) -> None:
        """Write an entry; it is on the disk when this returns. Only then release."""
        with self._alone():
            self._append(entry)

    def charge_within(self, entry: Entry, *, budget_total: float) -> str | None:
        """As `charge`, if the data set's total stays within `budget_total`; else the reason, with
        nothing written. No other process charges in between, so sweeps that run side by side never
        pass the total together. Baselines do not count.
        """
        with self._alone():
            counted, _ = self._counted(entry.dataset)
            mine = replace(
                entry, dataset=self.name_of(entry.dataset)
            )  # as the written ones have it
            after = _furthest([e for e in (*counted, mine) if not e.baseline])
            releases = [each.release for each in after]
            at = _smallest_delta(after)
            together = epsilon_sweep(releases, delta=at, exact=False)
            if together.epsilon > budget_total:  # a quick bound may be what is too large
                together = epsilon_sweep(releases, delta=at, exact=True)
            if together.epsilon > budget_total:
                return (
                    f"epsilon {together.epsilon:.4g} of the data set in all sweeps exceeds"
                    f" --budget-total {budget_total:g}{_because(together)}"
                )
            self._append(entry)
        return None

    def _append(self, entry: Entry) -> None:
        fields = {**entry.to_dict(), "dataset": self.name_of(entry.dataset)}
        if not entry.at:
            fields["at"] = time.time()
        self._log.append(fields)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only process that charges."""
        path = self._log.path.with_suffix(".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def register(self, fingerprint: str, records: Iterable[bytes]) -> int:
        """Make a data set's records known, so that a later one that shares some is recognised.

        `records` are what two data sets can share (an utterance's tokens, say), read only where the
        fingerprint is new. Returns the number of distinct records.
        """
        return self._hashes.register(fingerprint, records)

    def entries(self) -> list[Entry]:
        """All entries, oldest first.

        Raises: InvalidData for a damaged ledger.
        """
        return [entry_from(fields) for fields in self._log.read()]

    def datasets(self) -> tuple[str, ...]:
        """Names of what anything was charged to, in order of their first charge."""
        return tuple(dict.fromkeys(self.name_of(entry.dataset) for entry in self.entries()))

    def spend(self, fingerprint: str, *, delta: float | None = None, exact: bool = False) -> Spend:
        """What has been released about a data set's records, by composition, at `delta` (default:
        the smallest that any of its trials was charged at, or 1e-5).
        """
        counted, shared = self._counted(fingerprint)
        name = self.name_of(fingerprint)
        mine = (e for e in counted if self.name_of(e.dataset) == name)
        at = delta or _smallest_delta(counted)
        releases = [entry.release for entry in counted]
        finite = [what for what in releases if what.is_finite]
        return Spend(
            dataset=name,
            dataset_name=next((e.dataset_name for e in mine), ""),
            total=epsilon_sweep(releases, delta=at, exact=exact),
            accounted=epsilon_sweep(finite, delta=at, exact=exact),
            num_trials=len({(entry.sweep, entry.trial) for entry in counted}),
            num_unaccounted=len(releases) - len(finite),
            sweeps=tuple(dict.fromkeys(entry.sweep for entry in counted)),
            shared=shared,
            recognised=self._hashes.known(fingerprint),
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
        """The composition of what was released and what is planned, without baselines.

        Raises: InvalidInput where it would pass `budget_total`.
        """
        counted, _ = self._counted(fingerprint)
        at = delta or _smallest_delta(counted)
        before = [entry.release for entry in counted if not entry.baseline]
        together = epsilon_sweep([*before, *planned], delta=at, exact=False)
        if together.epsilon > budget_total:  # a quick bound may be what is too large
            together = epsilon_sweep([*before, *planned], delta=at, exact=True)
        if together.epsilon > budget_total:
            spent = epsilon_sweep(before, delta=at, exact=False).epsilon
            raise InvalidInput(
                f"expected the data set's total epsilon to stay within {budget_total:g} (delta"
                f" {at:g}): {spent:.4g} is spent, with the {len(planned)} planned trials it would"
                f" be {together.epsilon:.4g}{_because(together)}"
            )
        return together

    def _counted(self, fingerprint: str) -> tuple[list[Entry], dict[str, int]]:
        """What counts for a data set: its entries and those of data sets that share records."""
        shared = self._hashes.shared(fingerprint)
        about = {self.name_of(fingerprint), *shared}
        return _furthest(e for e in self.entries() if self.name_of(e.dataset) in about), shared


def _furthest(entries: Iterable[Entry]) -> list[Entry]:
    """Of each attempt at a trial the entry that reaches furthest."""
    kept: dict[tuple[str, str, str, int, int], Entry] = {}
    for entry in entries:
        key = (entry.dataset, entry.sweep, entry.trial, entry.attempt, entry.first_epoch)
        if key not in kept or kept[key].epochs < entry.epochs:
            kept[key] = entry
    return list(kept.values())


def _smallest_delta(entries: Iterable[Entry]) -> float:
    return min((entry.delta for entry in entries), default=1e-5)


def _because(spend: SweepSpend) -> str:
    return f" ({'; '.join(spend.unaccounted)})" if spend.unaccounted else ""

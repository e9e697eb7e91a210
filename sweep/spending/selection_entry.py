"""What a private selection is charged: once, as a whole, before any of its trials starts; and the
composition of its trials in its place, once they are unsealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweep.spending.entries import Entry, attempt_key, furthest
from sweep.spending.ledger import Ledger
from sweep.spending.training_data import TrainingData
from trainables.accountants import Release
from trainables.errors import InvalidData

TRIAL = "selection"  # in the place of a trial's id


def entry_of(release: Release, *, delta: float, data: TrainingData, sweep: str) -> Entry:
    """The entry of the best trial of `sweep`, whose `release` is a selection."""
    return Entry(
        dataset=data.fingerprint,
        dataset_name=data.name,
        sweep=sweep,
        trial=TRIAL,
        attempt=1,
        first_epoch=0,
        epochs=1,
        delta=delta,
        release=release,
    )


def charged(ledger: Ledger, sweep: str) -> Entry | None:
    """What the ledger says of a sweep's selection; None: it was not charged yet."""
    mine = furthest(e for e in ledger.entries() if e.sweep == sweep and e.trial == TRIAL)
    return mine[0] if mine else None


def composed(entries: Sequence[Entry], selection: Entry) -> list[Entry]:
    """What takes the place of a `selection` whose trials, of which the vault has `entries`, are all
    shown: each trial's releases, and last the selection as nothing, so that a crash in between
    leaves too much charged and never too little.

    Their number has become public, and says nothing of the records: what was released is the
    trials, of which the best is one.
    """
    theirs = [
        replace(each, dataset=selection.dataset, sweep=selection.sweep, at=0.0)
        for each in furthest(entries)
    ]
    nothing = replace(selection.release, phases=(), unsampled=(), unaccounted=(), best_of=None)
    return [*theirs, replace(selection, epochs=2, release=nothing, at=0.0)]


def charge_composed(ledger: Ledger, vault: Ledger, *, sweep: str) -> None:
    """Charge the composition of an unsealed sweep; what is in the ledger already is not repeated.

    Raises: InvalidData where the ledger lacks the selection.
    """
    selection = charged(ledger, sweep)
    if selection is None:
        raise InvalidData(f"expected the ledger's entry of {sweep}, got none")
    known = {
        (*attempt_key(entry), entry.epochs) for entry in ledger.entries() if entry.sweep == sweep
    }
    for entry in composed(vault.entries(), selection):
        if (*attempt_key(entry), entry.epochs) not in known:
            ledger.charge(entry)

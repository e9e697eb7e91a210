"""Charges of private selections: once, as a whole, before any trial starts; and the composition of
the trials instead, once they are unsealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweep.spending.entries import Entry, attempt_key, furthest
from sweep.spending.ledger import Ledger
from sweep.spending.training_data import TrainingData
from trainables.accountants import Release
from trainables.errors import InvalidData

TRIAL = "selection"  # instead of a trial's id


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


def selection_charge(ledger: Ledger, sweep: str) -> Entry | None:
    """The ledger's entry of a sweep's selection; None before it is charged."""
    mine = furthest(e for e in ledger.entries() if e.sweep == sweep and e.trial == TRIAL)
    return mine[0] if mine else None


def composed_entries(entries: Sequence[Entry], selection: Entry) -> list[Entry]:
    """The entries that replace a `selection` whose trials, with `entries` in the vault, are all
    shown: each trial's releases, and last an empty selection, so that a crash in between leaves too
    much charged and never too little.

    The number of trials is then public, but independent of the records. The release is that of
    the trials, which include the best one.
    """
    theirs = [
        replace(each, dataset=selection.dataset, sweep=selection.sweep, at=0.0)
        for each in furthest(entries)
    ]
    nothing = replace(selection.release, phases=(), unsampled=(), unaccounted=(), best_of=None)
    return [*theirs, replace(selection, epochs=2, release=nothing, at=0.0)]


def charge_composed(ledger: Ledger, vault: Ledger, *, sweep: str) -> None:
    """Charge the composition of an unsealed sweep, without repeating entries in the ledger.

    Raises: InvalidData where the ledger lacks the selection.
    """
    selection = selection_charge(ledger, sweep)
    if selection is None:
        raise InvalidData(f"expected the ledger's entry of {sweep}, got none")
    known = {
        (*attempt_key(entry), entry.epochs) for entry in ledger.entries() if entry.sweep == sweep
    }
    for entry in composed_entries(vault.entries(), selection):
        if (*attempt_key(entry), entry.epochs) not in known:
            ledger.charge(entry)

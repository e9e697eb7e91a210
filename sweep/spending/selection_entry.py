"""Charges of private selections: once, as a whole, before any trial starts; and the composition of
the trials once they are unsealed, where that costs more: what was paid never falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweep.spending.entries import Entry, attempt_key
from sweep.spending.ledger import Ledger
from sweep.store.data_sets import TrainingData
from trainables.accountants import Release, epsilon_sweep
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
    return next((entry for entry in ledger.of_sweep(sweep) if entry.trial == TRIAL), None)


def charge_composed(ledger: Ledger, entries: Sequence[Entry], *, sweep: str) -> None:
    """Charge an unsealed sweep with the `entries` of its trials, without repeating one that the
    ledger has, in an order in which a crash leaves too much charged and never too little.

    Where the trials cost more in the data set's total, they replace the selection. Else the larger
    of both counts (`BestOf.shown`), and the trials cost nothing beside it; couples, whose relation
    depends on their number, are charged beside it. The number of trials is then public, but
    independent of the records.

    Raises: InvalidData where the ledger lacks the selection.
    """
    selection = selection_charge(ledger, sweep)
    if selection is None:
        raise InvalidData(
            f"expected the ledger's entry of {sweep}, got none: restore the ledger from a copy, or"
            " charge it again (`sweep ledger --check --repair`)"
        )
    best = selection.release.best_of
    nothing = replace(selection.release, phases=(), unsampled=(), unaccounted=(), best_of=None)
    last = replace(selection, epochs=selection.epochs + 1, release=nothing, at=0.0)
    stays, replaced = best is not None, False
    if best is not None and not best.shown:  # else it was decided before a crash
        shown, others = tuple(each.release for each in entries), ledger.beside(selection)
        delta = min(each.delta for each in (selection, *entries, *others))
        before, after = (
            epsilon_sweep([*(e.release for e in others), *paid], delta=delta, exact=True).epsilon
            for paid in ([selection.release], shown)
        )
        replaced = after >= before
        stays = not replaced and selection.release.unit != "couple"
        if stays:
            larger = replace(selection.release, best_of=replace(best, shown=shown))
            ledger.charge(replace(last, release=larger))
    known = {attempt_key(each): each.epochs for each in ledger.of_sweep(sweep)}
    for each in entries:
        if known.get(attempt_key(each), 0) < each.epochs:
            what = nothing if stays else each.release
            mine = replace(each, dataset=selection.dataset, sweep=selection.sweep)
            ledger.charge(replace(mine, release=what, at=0.0))
    if replaced:
        ledger.charge(last)

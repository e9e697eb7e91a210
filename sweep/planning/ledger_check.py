"""Checks that the ledger has all releases of the sweeps of a home, and adds missing
ones. Deleted sweeps cannot be compared.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby

from sweep.planning.accounting import Accounting
from sweep.planning.prepare import prepare_space
from sweep.planning.pricing import price
from sweep.settings import Settings
from sweep.spending.ledger import FILE, SELECTION, Ledger, entry_for, selection_entry
from sweep.spending.paid import Finding, differences
from sweep.store import sweeps as store
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidData, InvalidInput


def check(settings: Settings) -> list[Finding]:
    """Missing or damaged entries; empty where there are none. Changes nothing."""
    ledger = Ledger(settings.home / FILE)
    try:
        found = [
            Finding(problem=f"no hashes of the records of data set {name[:12]}")
            for name in ledger.without_hashes()
        ]
    except InvalidData as damage:
        return [Finding(problem=str(damage))]
    for name in store.names(settings.home):
        try:
            found += differences(store.open_sweep(settings.home, name), ledger)
        except InvalidInput as damage:
            found.append(Finding(problem=str(damage), sweep=name))
    return found


def repair(settings: Settings) -> list[Finding]:
    """Add missing entries; returns the remaining problems. No entry is removed or
    changed.
    """
    ledger, found = Ledger(settings.home / FILE), check(settings)
    account = Accounting(settings)
    if not all(finding.sweep for finding in found):
        for name in store.names(settings.home):
            with suppress(InvalidInput):  # reported again below
                price(
                    _trials_of(store.open_sweep(settings.home, name), settings), account
                )
    for finding in found:
        if finding.epochs:
            folder = store.open_sweep(settings.home, finding.sweep)
            try:
                _charge(folder, finding, ledger, settings)
            except InvalidInput:
                continue  # for example, its data are unavailable: reported again below
    return check(settings)


def _trials_of(folder: SweepFolder, settings: Settings) -> Sequence[PlannedTrial]:
    """The trials of a sweep that run; of a private selection those that may be
    drawn.
    """
    if folder.space().search.is_private_selection:
        return prepare_space(folder.space(), settings=settings).plan.to_run
    return folder.plan().to_run


def _charge(
    folder: SweepFolder, finding: Finding, ledger: Ledger, settings: Settings
) -> None:
    """Charge the missing epochs of a trial as a further attempt, or a selection."""
    sweep = folder.ledger_name
    if finding.trial == SELECTION:
        prepared = prepare_space(folder.space(), settings=settings)
        assert prepared.price is not None
        what, delta = prepared.price.release, prepared.price.delta
        data = Accounting(settings).data_of(prepared.plan.to_run[0].config)
        ledger.key.register(data.fingerprint, data.texts())
        ledger.charge(selection_entry(what, delta=delta, data=data, sweep=sweep))
        return
    known = [e.attempt for e in ledger.of_sweep(sweep) if e.trial == finding.trial]
    trials = [trial for trial in folder.plan().trials if trial.id == finding.trial]
    for priced in price(trials, Accounting(settings)):
        # Consecutive numbers are equally far from their places.
        runs = groupby(enumerate(finding.epochs), key=lambda pair: pair[1] - pair[0])
        for epochs in ([number for _, number in run] for _, run in runs):
            ledger.charge(
                entry_for(
                    priced.mechanism,
                    dataset=priced.dataset,
                    dataset_name=priced.dataset_name,
                    sweep=sweep,
                    trial=finding.trial,
                    attempt=max(known, default=0) + 1,
                    first_epoch=epochs[0] - 1,
                    epochs=epochs[-1],
                    baseline=priced.trial.is_exempt,
                )
            )

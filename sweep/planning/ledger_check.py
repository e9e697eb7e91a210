"""Checks that the ledger has all releases of the sweeps of a home, and adds missing
ones. Deleted sweeps cannot be compared.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby

from sweep.planning.accounting import Accounting
from sweep.planning.prepare import prepare_space
from sweep.planning.pricing import price
from sweep.settings import Settings
from sweep.spending.ledger import SELECTION, Ledger, selection_entry
from sweep.spending.paid import Finding, findings
from sweep.spending.taken_over import entries_of
from sweep.store import sweeps as store
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidData, InvalidInput


def check(settings: Settings) -> list[Finding]:
    """Missing or damaged entries of the ledger of a home; empty where there are none.
    Changes nothing.
    """
    return _check(Accounting(settings).ledger, store.sweeps(settings.home))


def repair(settings: Settings) -> list[Finding]:
    """Add missing entries, and hashes of records that are missing; returns the problems
    that remain. No entry is removed or changed.
    """
    account, folders = Accounting(settings), store.sweeps(settings.home)
    found = _check(account.ledger, folders)
    if not all(finding.sweep for finding in found):
        for folder in folders:
            with suppress(InvalidInput):  # reported again below
                price(_trials_of(folder, settings), account)
    by_name = {folder.name: folder for folder in folders}
    for finding in found:
        if finding.epochs:
            with suppress(InvalidInput):  # its data are unavailable, for example
                _charge(by_name[finding.sweep], finding, account)
    return _check(account.ledger, folders)


def _check(ledger: Ledger, folders: Iterable[SweepFolder]) -> list[Finding]:
    try:
        lost = ledger.without_hashes()
    except InvalidData as damage:
        return [Finding(problem=str(damage))]
    return [
        *(
            Finding(problem=f"no hashes of the records of data set {name[:12]}")
            for name in lost
        ),
        *findings(folders, ledger),
    ]


def _trials_of(folder: SweepFolder, settings: Settings) -> Sequence[PlannedTrial]:
    """The trials of a sweep that run; of a private selection those that may be
    drawn.
    """
    if folder.space().search.is_private_selection:
        return prepare_space(folder.space(), settings=settings).plan.to_run
    return folder.plan().to_run


def _charge(folder: SweepFolder, finding: Finding, account: Accounting) -> None:
    """Charge the missing epochs of a trial as a further attempt, or a selection."""
    ledger, sweep = account.ledger, folder.ledger_name
    if finding.trial == SELECTION:
        prepared = prepare_space(folder.space(), settings=account.settings)
        assert prepared.price is not None
        what, delta = prepared.price.release, prepared.price.delta
        data = account.registered_data(prepared.plan.to_run[0].config)
        ledger.charge(selection_entry(what, delta=delta, data=data, sweep=sweep))
        return
    known = [e.attempt for e in entries_of(folder, ledger) if e.trial == finding.trial]
    attempt = max(known, default=0) + 1
    trials = [trial for trial in folder.plan().trials if trial.id == finding.trial]
    for priced in price(trials, account):
        # Consecutive numbers are equally far from their places.
        runs = groupby(enumerate(finding.epochs), key=lambda pair: pair[1] - pair[0])
        for epochs in ([number for _, number in run] for _, run in runs):
            ledger.charge(
                priced.entry(
                    sweep=sweep,
                    attempt=attempt,
                    first_epoch=epochs[0] - 1,
                    epochs=epochs[-1],
                )
            )

"""Checks that the ledger has all releases of the sweeps of a home, and adds missing ones.

Every epoch of a trial on disk was charged before its release, so the ledger must have an entry for
each. A trial of an engine that trains on no private record (kind prior) has nothing to charge,
unless its epsilon is infinite, because it read other private inputs. Deleted sweeps cannot be
compared.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from sweep.planning.accounting import Accounting
from sweep.planning.prepare import prepare_space
from sweep.planning.pricing import price
from sweep.settings import Settings
from sweep.spending.gate import unpaid
from sweep.spending.ledger import FILE, SELECTION, Entry, Ledger, entry_for, selection_entry
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder, Vault
from trainables import catalogue, formats
from trainables.errors import InvalidData, InvalidInput


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A problem of the ledger. `epochs`: numbers, from 1, of the epochs of a `trial` of a `sweep`
    without an entry; empty where `problem` is complete.
    """

    problem: str
    sweep: str = ""
    trial: str = ""
    epochs: tuple[int, ...] = ()


def check(settings: Settings) -> list[Finding]:
    """Missing or damaged entries; empty where there are none. Changes nothing."""
    ledger = Ledger(settings.home / FILE)
    try:
        ledger.datasets()
    except InvalidData as damage:
        return [Finding(problem=str(damage))]
    found: list[Finding] = []
    for name in store.names(settings.home):
        try:
            found += _of_sweep(store.open_sweep(settings.home, name), ledger)
        except InvalidInput as damage:
            found.append(Finding(problem=str(damage), sweep=name))
    return found


def require_paid(folder: SweepFolder, ledger: Ledger) -> None:
    """Require an entry of the ledger for each epoch on disk: without it (a lost or older ledger, a
    sweep from another home) the sweep would spend its budget again.

    Raises: InvalidInput naming a trial.
    """
    for finding in _of_sweep(folder, ledger):
        raise InvalidInput(
            f"expected the ledger to have every epoch of {folder.name}, got none for some of trial"
            f" {finding.trial}: restore the ledger from a copy, or charge them again (`sweep ledger"
            " --check --repair`)"
        )


def repair(settings: Settings) -> list[Finding]:
    """Add missing entries; returns the remaining problems. No entry is removed or changed."""
    ledger = Ledger(settings.home / FILE)
    for finding in check(settings):
        if finding.epochs:
            folder = store.open_sweep(settings.home, finding.sweep)
            try:
                _charge(folder, finding, ledger, settings)
            except InvalidInput:
                continue  # for example, its data are unavailable: reported again below
    return check(settings)


def _of_sweep(folder: SweepFolder, ledger: Ledger) -> Iterator[Finding]:
    # Before the entries: a running sweep records an epoch after its charge.
    done = {}
    for trial in folder.plan().trials:
        known = folder.state().trial(trial.id)
        done[trial.id] = max(known.epochs_done, known.result["epochs_done"] if known.result else 0)
    entries = ledger.of_sweep(folder.ledger_name)
    if folder.space().search.is_private_selection and not folder.is_unsealed:
        vault = Vault(folder)
        begun = vault.is_over or (vault.is_sealed and vault.draws.state().begun)
        if begun and not any(entry.trial == SELECTION for entry in entries):
            problem = "its selection has no entry"
            yield Finding(problem=problem, sweep=folder.name, trial=SELECTION, epochs=(1,))
        return
    by_trial = defaultdict[str, list[Entry]](list)
    for entry in entries:
        by_trial[entry.trial].append(entry)
    for trial in folder.plan().trials:
        is_finite = trial.epsilon is not None and math.isfinite(trial.epsilon)
        if is_finite and catalogue.kind_of("engines", trial.engine) == "prior":
            continue  # it read no record; its epsilon is 0, or that of an export that it reads
        if missing := unpaid(trial.id, done[trial.id], by_trial[trial.id]):
            numbers = tuple(epoch + 1 for epoch in missing)
            yield Finding(
                problem=f"no entry for {formats.count(len(numbers), 'epoch')} of trial {trial.id}",
                sweep=folder.name,
                trial=trial.id,
                epochs=numbers,
            )


def _charge(folder: SweepFolder, finding: Finding, ledger: Ledger, settings: Settings) -> None:
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

"""Compares the ledger with the logs of sweeps: each must have what the other says has
happened.

Every epoch of a trial on disk was charged before its release, so the ledger must have
an entry for each. An epoch is charged once the one before it is in the sweep's log, so
the log must have all epochs that the ledger has, but the last. A trial of an engine
that trains on no private record (kind prior) has nothing to charge, unless its epsilon
is infinite, because it read other private inputs; a planned epsilon of 0 does not show
this.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweep.spending.ledger import SELECTION, Entry, Ledger, selection_charge
from sweep.spending.taken_over import entries_of
from sweep.store.sweeps import SweepFolder, Vault
from trainables import catalogue, formats
from trainables.errors import InvalidData, InvalidInput

CHARGED = "charged"  # among the facts of a private selection: when it was


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A problem of the ledger. `problem` is a phrase for people. `epochs` are the
    numbers, from 1, of the epochs of a `trial` of a `sweep` that have no entry, which
    `repair` can charge; empty where nothing can be charged. `sweep` is the folder's
    name, empty where the problem is the ledger's own.
    """

    problem: str
    sweep: str = ""
    trial: str = ""
    epochs: tuple[int, ...] = ()


def uncharged_epochs(
    trial_id: str, epochs_done: int, entries: Iterable[Entry]
) -> list[int]:
    """The numbers, from 0, of those of the first `epochs_done` epochs of a trial that
    no entry of its sweep covers; empty where all are charged.
    """
    missing = set(range(epochs_done))
    for each in entries:
        if each.trial == trial_id:
            missing.difference_update(range(each.first_epoch, each.epochs))
    return sorted(missing)


def differences(folder: SweepFolder, ledger: Ledger) -> Iterator[Finding]:
    """What the ledger lacks of a sweep, and what the sweep's log lacks of the ledger.

    Raises: InvalidData for a damaged log or ledger.
    """
    if not folder.space().search.is_private_selection or folder.is_unsealed:
        yield from _of_trials(folder, ledger)
    elif has_drawn(folder) and selection_charge(ledger, folder.ledger_name) is None:
        problem = "its selection has no entry"
        yield Finding(problem=problem, sweep=folder.name, trial=SELECTION, epochs=(1,))


def _of_trials(folder: SweepFolder, ledger: Ledger) -> Iterator[Finding]:
    # Before the entries: a running sweep records an epoch after its charge.
    trials, state, done = folder.plan().trials, folder.state(), {}
    for trial in trials:
        known = state.trial(trial.id)
        done[trial.id] = max(
            known.epochs_done, known.result["epochs_done"] if known.result else 0
        )
    by_trial = defaultdict[str, list[Entry]](list)
    for entry in entries_of(folder, ledger):
        by_trial[entry.trial].append(entry)
    for trial in trials:
        is_finite = trial.epsilon is not None and math.isfinite(trial.epsilon)
        is_prior = catalogue.kind_of("engines", trial.engine) == "prior"
        if is_finite and is_prior and not trial.covers_all:
            # it read no record; its epsilon is 0, or that of an export that it reads
            continue
        if missing := uncharged_epochs(trial.id, done[trial.id], by_trial[trial.id]):
            numbers = tuple(epoch + 1 for epoch in missing)
            yield Finding(
                problem=f"no entry for {formats.count(len(numbers), 'epoch')} of trial"
                f" {trial.id}",
                sweep=folder.name,
                trial=trial.id,
                epochs=numbers,
            )
    if (trial_id := _trial_behind(folder, by_trial)) is not None:
        yield Finding(
            problem=f"its log is older than the ledger, which has more epochs of trial"
            f" {trial_id}",
            sweep=folder.name,
            trial=trial_id,
        )


def require_paid(folder: SweepFolder, ledger: Ledger) -> None:
    """Require the ledger and the sweep's log to agree. Without an entry for each epoch
    on disk (a lost or older ledger, a sweep from another home) the sweep would spend
    its budget again; beside an older log it would train again.

    Raises: InvalidData naming a trial.
    """
    for finding in differences(folder, ledger):
        if finding.epochs:
            raise _ledger_lacks(finding)
        raise InvalidData(
            f"expected {folder.log_file} to have every epoch that was charged, got an"
            f" older log, without some of trial {finding.trial}: restore the sweep's"
            f" folder from a copy, or `sweep delete {folder.name}` (its charges stay)"
        )


def require_draws_paid(vault: Vault) -> None:
    """The same for the draws in the vault of a private selection and the vault's own
    ledger.

    Raises: InvalidData with the file.
    """
    for finding in _of_trials(vault.draws, Ledger(vault.ledger_file)):
        lacking = vault.ledger_file if finding.epochs else vault.draws.log_file
        raise InvalidData(
            f"expected {lacking} to have every epoch of the draws, got an older one or"
            f" none: restore {vault.path} from a copy"
        )


def has_drawn(folder: SweepFolder) -> bool:
    """Whether a private selection was charged, by its own log or by what is in its
    vault. Then its draws must not be drawn anew.
    """
    if CHARGED in folder.about() or folder.state().begun:
        return True
    vault = Vault(folder)
    return vault.is_over or (vault.is_sealed and bool(vault.draws.state().begun))


def require_vault(folder: SweepFolder, ledger: Ledger) -> Vault:
    """The vault of a private selection, which it must have once it was charged: other
    draws, or the same ones with other noise, would be a release that nobody paid for.

    Raises: InvalidData for a vault that is missing, another sweep's, or older than the
    release.
    """
    vault = Vault(folder)
    restore = "restore the folder from a copy (drawn anew, its trials would be another release)"
    if not vault.is_sealed:
        if has_drawn(folder) or ledger.of_sweep(folder.ledger_name):
            raise InvalidData(
                f"expected the trials that {folder.name} has drawn in {vault.path}, got"
                f" none: {restore}"
            )
        return vault
    if vault.sweep_id not in (None, folder.made().id):
        raise InvalidData(
            f"expected the trials that {folder.name} has drawn in {vault.path}, got"
            f" those of another sweep: {restore}"
        )
    if folder.state().begun and any(
        record.status.is_pending for record in vault.draws.records(running=False)
    ):
        raise InvalidData(
            f"expected every trial in {vault.path} to have ended, because the best of"
            f" {folder.name} is released, got an older vault: {restore}"
        )
    return vault


def _trial_behind(
    folder: SweepFolder, entries: Mapping[str, Sequence[Entry]]
) -> str | None:
    """A trial of which the ledger has more epochs than the log allows, None where there
    is none. A copy of the sweep in the same home may have run them; while a sweep is
    being unsealed, its log has no trial yet.
    """
    state = folder.state()
    if folder.is_unsealed and Vault(folder).is_sealed:
        return None
    for trial_id, charged in entries.items():
        most = max((entry.epochs for entry in charged), default=0)
        if trial_id != SELECTION and most > state.trial(trial_id).most_charged:
            return None if folder.copies() else trial_id
    return None


def findings(sweeps: Iterable[SweepFolder], ledger: Ledger) -> Iterator[Finding]:
    """The `differences` of every one of `sweeps` from the ledger, in their order. One
    that cannot be read is a finding of its own, whose `problem` says why.
    """
    for folder in sweeps:
        try:
            yield from differences(folder, ledger)
        except InvalidInput as damage:
            yield Finding(problem=str(damage), sweep=folder.name)


def require_whole_ledger(
    ledger: Ledger, sweeps: Iterable[SweepFolder], *, budget_total: float | None = None
) -> None:
    """Require the ledger to have every epoch of the `sweeps` of its home, and with a
    `budget_total` the hashes of every data set's records. A sweep whose log is damaged
    says nothing.

    Raises: InvalidData for a damaged ledger, else naming a sweep and a trial, or the
    data set.
    """
    ledger.datasets()
    if budget_total is not None:
        ledger.require_hashes()
    for finding in findings(sweeps, ledger):
        if finding.epochs:
            raise _ledger_lacks(finding)


def _ledger_lacks(finding: Finding) -> InvalidData:
    return InvalidData(
        f"expected the ledger to have every epoch of {finding.sweep}, got none for some"
        f" of trial {finding.trial}: restore the ledger from a copy, or charge them"
        " again (`sweep ledger --check --repair`)"
    )

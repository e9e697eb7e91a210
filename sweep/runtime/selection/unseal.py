"""Unseals a private selection: all its trials are shown, and the ledger is charged for all."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace

from sweep.planning.pricing import price
from sweep.results.selected_trial import release_all
from sweep.settings import Settings
from sweep.spending.entries import Entry
from sweep.spending.gate import unpaid
from sweep.spending.ledger import FILE, Ledger, charge_composed, selection_charge
from sweep.store.sweeps import SweepFolder, Vault
from sweep.tracking.delivery import Tracking
from trainables.accountants import certify, release
from trainables.errors import InvalidData, InvalidInput
from trainables.privacy.rounding import format_epsilon


def require_sealed(folder: SweepFolder) -> Vault:
    """The vault of an ended private selection.

    Raises: InvalidInput for a sweep without one, or one that has not ended.
    """
    space, vault = folder.space(), Vault(folder)
    if not space.search.is_private_selection:
        raise InvalidInput(
            f"expected a sweep with strategy private_selection, got {folder.name} with"
            f" {space.search.strategy}: its trials are not sealed"
        )
    if folder.is_unsealed and not vault.is_sealed:
        raise InvalidInput(f"expected a sealed sweep, got {folder.name}, which is unsealed already")
    if not vault.is_over:
        raise InvalidInput(
            f"expected a sweep whose trials have ended, got {folder.name}:"
            f" `sweep resume {folder.name}` first"
        )
    return vault


def unseal(folder: SweepFolder, settings: Settings, *, tracker: Tracking) -> str | None:
    """Show every trial. Before that, the composition of all of them replaces the selection in the
    ledger. Returns why results are missing in the tracking store, or None.

    Raises: InvalidInput as `require_sealed`, or where the composition exceeds `budget.total` or the
    sweep's `--budget-total`; InvalidData where a ledger lacks an entry.
    """
    vault, ledger = require_sealed(folder), Ledger(settings.home / FILE)
    with folder.hold_lock():
        entries = _entries(folder, vault, settings)
        _require_room(folder, ledger, entries)
        charge_composed(ledger, entries, sweep=folder.ledger_name)
        folder.note(unsealed=time.time())
        release_all(folder, vault)
        shutil.rmtree(vault.path)
        problem = tracker.delete(folder)  # runs with the figures from before
    return problem or tracker.deliver(folder, running=False)


def _entries(folder: SweepFolder, vault: Vault, settings: Settings) -> list[Entry]:
    """The entries of the drawn trials, each priced by its trial's own mechanism.

    Raises: InvalidData where the vault lacks a trial, or its ledger an epoch of one.
    """
    draws, chosen = vault.draws, vault.selection() or {}
    entries = Ledger(vault.ledger_file).of_sweep(draws.ledger_name)
    records = {record.plan.id: record for record in draws.records(running=False)}
    begun = {place.name for place in (draws.path / "trials").iterdir()} | draws.state().begun
    home = Ledger(settings.home / FILE)
    priced = price([record.plan for record in records.values()], settings, ledger=home)
    mechanisms = {each.trial.id: each.mechanism for each in priced if not each.mechanism.is_free}
    if (
        not begun | {entry.trial for entry in entries} <= records.keys()
        or not all(record.status.is_finished for record in records.values())
        or any(unpaid(name, records[name].epochs_done, entries) for name in mechanisms)
    ):
        raise InvalidData(
            f"expected {vault.path} to have every trial, and {vault.ledger_file.name} every epoch"
            " of one, got less: restore the folder from a copy"
        )
    return [
        replace(
            each,
            trial=chosen["trial"] if each.trial == chosen.get("draw") else each.trial,
            release=release(mechanisms[each.trial], first=each.first_epoch, last=each.epochs),
        )
        for each in entries
    ]


def _require_room(folder: SweepFolder, ledger: Ledger, entries: Sequence[Entry]) -> None:
    if not entries:
        return
    releases, delta = [entry.release for entry in entries], min(entry.delta for entry in entries)
    together = certify(releases, delta=delta, effort="total")
    total = folder.space().budget.total
    if total is not None and together.epsilon > total:
        raise InvalidInput(
            f"the trials of {folder.name} cost epsilon {format_epsilon(together.epsilon)} together,"
            f" which exceeds budget.total={total:g}: they stay sealed"
        )
    limit = folder.about().get("budget_total")
    selection = selection_charge(ledger, folder.ledger_name)
    if limit is not None and selection is not None:
        ledger.require_within(selection.dataset, releases, budget_total=limit, delta=delta)

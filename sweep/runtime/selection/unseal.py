"""Unseals a private selection: all its trials are shown, and the ledger is charged for all."""

from __future__ import annotations

import shutil
import time

from sweep.results.selected_trial import release_all
from sweep.settings import Settings
from sweep.spending import selection_entry
from sweep.spending.entries import furthest
from sweep.spending.ledger import FILE, Ledger
from sweep.store.sweeps import SweepFolder
from sweep.store.vault import Vault
from sweep.tracking.delivery import Tracking
from trainables.accountants import epsilon_sweep
from trainables.errors import InvalidInput
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
    sweep's `--budget-total`.
    """
    vault, ledger = require_sealed(folder), Ledger(settings.home / FILE)
    with folder.hold_lock():
        _require_room(folder, ledger, vault)
        selection_entry.charge_composed(ledger, Ledger(vault.ledger_file), sweep=folder.ledger_name)
        folder.note(unsealed=time.time())
        release_all(folder, vault)
        shutil.rmtree(vault.path)
        problem = tracker.delete(folder)  # runs with the figures from before
    return problem or tracker.deliver(folder, running=False)


def _require_room(folder: SweepFolder, ledger: Ledger, vault: Vault) -> None:
    entries = furthest(Ledger(vault.ledger_file).entries())
    if not entries:
        return
    releases, delta = [entry.release for entry in entries], min(entry.delta for entry in entries)
    together = epsilon_sweep(releases, delta=delta)
    total = folder.space().budget.total
    if total is not None and together.epsilon > total:
        raise InvalidInput(
            f"the trials of {folder.name} cost epsilon {format_epsilon(together.epsilon)} together,"
            f" which exceeds budget.total={total:g}: they stay sealed"
        )
    limit = folder.about().get("budget_total")
    selection = selection_entry.selection_charge(ledger, folder.ledger_name)
    if limit is not None and selection is not None:
        ledger.require_within(selection.dataset, releases, budget_total=limit, delta=delta)

"""Runs a private selection, and unseals it. Its trials are drawn beforehand and charged
as a whole. They run in the vault, and only the fact that they run is shown. Once
unsealed all are shown, and charged.
"""

import shutil
import time
from dataclasses import replace

from sweep.best_effort import BestEffort
from sweep.planning.accounting import Accounting
from sweep.planning.plan import plan_point
from sweep.planning.prepare import Prepared
from sweep.planning.pricing import price as priced_trials
from sweep.results.selected_trial import release_all, release_best
from sweep.results.tables.progress import Progress
from sweep.runtime.driver import Driver, Watch
from sweep.runtime.events import RunSettings, is_of_machine
from sweep.search import private_selection as search
from sweep.settings import Settings
from sweep.spending.gate import open_gate
from sweep.spending.ledger import (
    FILE,
    Entry,
    Ledger,
    charge_composed,
    selection_charge,
    selection_entry,
)
from sweep.spending.paid import (
    CHARGED,
    require_draws_paid,
    require_paid,
    require_vault,
    uncharged_epochs,
)
from sweep.store import manifest
from sweep.store.plans import Plan
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord, Vault
from sweep.tracking.delivery import Delivery, is_tracked, open_store
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.releases import release
from trainables.dp.accounting.rounding import format_epsilon
from trainables.errors import InvalidData, InvalidInput, TrialFailed
from trainables.figures import EPSILON

_NAME = "the best of a secret number of trials"


def execute(
    folder: SweepFolder,
    prepared: Prepared,
    account: Accounting,
    executed: RunSettings,
    watch: Watch,
) -> None:
    """Draw from the plan and charge the selection, both once, run what was drawn,
    release the best.

    Raises: InvalidInput where the data set's total does not permit the selection, or
    the price does not cover the release of a trial that was drawn; InvalidData where
    the ledger or the vault has lost something; TrialFailed where the machine failed a
    trial, and then nothing is released.
    """
    trials, price = prepared.plan.to_run, prepared.price
    assert price is not None
    if copies := [copy.name for copy in folder.copies()]:
        raise InvalidInput(
            f"expected one folder of the private selection {folder.name}, got a copy,"
            f" {copies[0]}: the best of either would be a release of its own"
        )
    ledger, name = account.ledger, folder.ledger_name
    require_paid(folder, ledger)
    vault = require_vault(folder, ledger)
    if not vault.is_sealed:  # drawn by the home's key and the sweep's id
        space, drawn = folder.space(), []
        random = search.random_of(ledger.key.read(), str(folder.about()["id"]))
        number = search.draw_number(search.law_of(space), random)
        for point in search.draw_points(space, trials, number, random):
            trial = plan_point(space, point, account=account)
            what = release(account.mechanism(trial.config)) if trial.runs else None
            if what not in price.configurations:
                raise InvalidInput(
                    "expected the same epsilon for every point of the space with"
                    " strategy private_selection: a value inside a range changes it"
                )
            # The same configuration may be drawn twice, and is then two trials; from
            # their names no number follows.
            drawn.append(replace(trial, id=f"draw-{random.bytes(4).hex()}-{trial.id}"))
        vault.seal(space, Plan(name=space.name, trials=tuple(drawn)))
    if selection_charge(ledger, name) is None:  # as a whole, before anything starts
        data = account.registered_data(trials[0].config)
        entry = selection_entry(price.release, delta=price.delta, data=data, sweep=name)
        reason = ledger.charge(entry, budget_total=folder.budget_total)
        if reason is not None:
            raise InvalidInput(reason)
    if CHARGED not in folder.about():
        folder.note(**{CHARGED: time.time()})
    require_draws_paid(vault)
    draws = vault.draws
    running = Progress(
        name=_NAME,
        status=TrialStatus.RUNNING,
        epochs_done=0,
        epochs=executed.max_epochs,
        epsilon=price.epsilon_selected,
    )
    priced = priced_trials(draws.plan().trials, account)
    with draws.hold_lock():
        driver = Driver(
            open_gate(draws, priced, ledger=Ledger(vault.ledger_file)),
            draws,
            # The progress shown is always the same: that trials run.
            watch=lambda *_: watch("sealed", running),
            is_resumed=_is_resumed,
        )
        driver.run(executed)
    records = draws.records(running=False)
    if any(map(_is_resumed, records)):
        # The best of the others is not the priced release. Why it failed is an outcome
        # of a trial that is not released.
        raise TrialFailed(
            "a draw failed, so nothing is released; its reason is in the vault, for"
            f" the curator alone: `sweep resume {folder.name}` runs it again"
        )
    release_best(folder, vault, search.best_of(records), price.to_dict())
    for record in folder.records(running=False):
        epsilon = record.metrics.get(EPSILON)
        shown = replace(Progress.of(record), name=_NAME, plan=None, epsilon=epsilon)
        watch("sealed", shown)


def _is_resumed(record: TrialRecord) -> bool:
    """Whether a draw is still to run. One that has failed for a reason of its own has
    its outcome, the worst score: run again, it would be chosen by having succeeded,
    which no price covers.
    """
    failed_alone = record.status is TrialStatus.FAILED and not is_of_machine(
        record.reason or ""
    )
    return record.status.is_resumed and not failed_alone


def require_sealed(folder: SweepFolder) -> Vault:
    """The vault of a private selection whose trials have ended and are not shown yet.

    Raises: InvalidInput for a sweep without one, one that is unsealed already or has
    not ended; as `require_vault`.
    """
    space, vault = folder.space(), Vault(folder)
    ledger = Ledger(folder.path.parent / FILE)
    if not space.search.is_private_selection:
        raise InvalidInput(
            f"expected a sweep with strategy private_selection, got {folder.name} with"
            f" {space.search.strategy}: its trials are not sealed"
        )
    if folder.is_unsealed and not vault.is_sealed:
        raise InvalidInput(
            f"expected a sealed sweep, got {folder.name}, which is unsealed already"
        )
    require_vault(folder, ledger)
    if not vault.is_over:
        raise InvalidInput(
            f"expected a sweep whose trials have ended, got {folder.name}:"
            f" `sweep resume {folder.name}` first"
        )
    return vault


def unseal(folder: SweepFolder, settings: Settings) -> str | None:
    """Charge the composition of all trials, then show them. Returns why results are
    missing in the tracking store, or None.

    Raises: InvalidInput as `require_sealed`, or where the composition exceeds
    `budget.total` or the sweep's `--budget-total`; InvalidData where a ledger lacks an
    entry.
    """
    vault, account = require_sealed(folder), Accounting(settings)
    ledger = account.ledger
    tracker = open_store(settings) if is_tracked(settings, folder) else None
    ledger.require_hashes()
    with folder.hold_lock():
        entries = _entries(folder, vault, account)
        releases = [entry.release for entry in entries]
        delta = min((entry.delta for entry in entries), default=1.0)
        together = (
            certify(releases, delta=delta, effort="total").epsilon if releases else 0.0
        )
        total, limit = folder.space().budget.total, folder.budget_total
        if total is not None and together > total:
            raise InvalidInput(
                f"the trials of {folder.name} cost epsilon {format_epsilon(together)}"
                f" together, which exceeds budget.total={total:g}: they stay sealed"
            )
        selection = selection_charge(ledger, folder.ledger_name)
        if releases and limit is not None and selection is not None:
            ledger.require_within(
                selection.dataset, releases, budget_total=limit, delta=delta
            )
        charge_composed(ledger, entries, sweep=folder.ledger_name)
        folder.note(unsealed=time.time())
        release_all(folder, vault)
        shutil.rmtree(vault.path)
    guard = BestEffort("MLflow")
    if tracker is not None:
        with guard:
            tracker.delete(folder)  # runs with the figures from before
    return guard.problem or Delivery(settings, folder).close()


def _entries(folder: SweepFolder, vault: Vault, account: Accounting) -> list[Entry]:
    """The entries of the drawn trials, each priced by its trial's own mechanism.

    Raises: InvalidData where the vault lacks a trial or has a damaged one, or its
    ledger lacks an epoch of one.
    """
    draws, chosen = vault.draws, vault.selection() or {}
    entries = Ledger(vault.ledger_file).of_sweep(draws.ledger_name)
    records = {record.plan.id: record for record in draws.records(running=False)}
    folders = {place.name for place in (draws.path / "trials").iterdir()}
    known = folders | draws.state().begun | {entry.trial for entry in entries}
    priced = priced_trials([record.plan for record in records.values()], account)
    mechanisms = {
        each.trial.id: each.mechanism for each in priced if not each.mechanism.is_free
    }
    is_uncharged = any(
        uncharged_epochs(name, records[name].epochs_done, entries)
        for name in mechanisms
    )
    is_open = any(map(_is_resumed, records.values()))
    if is_open or is_uncharged or not known <= records.keys():
        raise InvalidData(
            f"expected {vault.path} to have every trial, and {vault.ledger_file.name}"
            " every epoch of one, got less: restore the folder from a copy"
        )
    for name, record in records.items():
        if record.status.is_finished:
            manifest.require_whole(draws.trial_folder(name))
    return [
        replace(
            each,
            trial=(each.trial == chosen.get("draw") and chosen["trial"]) or each.trial,
            release=release(
                mechanisms[each.trial], first=each.first_epoch, last=each.epochs
            ),
        )
        for each in entries
    ]

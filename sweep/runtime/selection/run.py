"""Runs a private selection. Its trials are drawn beforehand and charged as a whole. They run in the
vault, and only the fact that they run is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sweep import interrupts, phases
from sweep.planning.accounting import accounting
from sweep.planning.plan import plan_point
from sweep.planning.prepare import Prepared
from sweep.planning.pricing import price as priced_trials
from sweep.planning.selection_price import SelectionPrice
from sweep.results.selected_trial import release_best
from sweep.results.tables.progress import Progress
from sweep.runtime.driver import Driver
from sweep.runtime.events import Interrupted
from sweep.runtime.execution import Services, run_pending
from sweep.runtime.journal import Journal
from sweep.search import private_selection as search
from sweep.settings import Settings
from sweep.spending import selection_entry
from sweep.spending.entries import Account
from sweep.spending.gate import open_gate
from sweep.spending.home_key import HomeKey
from sweep.spending.ledger import FILE, Ledger
from sweep.store.data_sets import TrainingData, training_data
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord, Vault, storage_faults
from trainables import accountants, goals
from trainables.errors import InvalidInput, TrialFailed
from trainables.figure_cache import FigureCache
from trainables.figures import EPSILON

_NAME = "the best of a secret number of trials"


def is_over(folder: SweepFolder) -> bool:
    """Whether its best trial, or every one, is shown."""
    return Vault(folder).is_over or folder.is_unsealed


def is_charged(folder: SweepFolder, settings: Settings) -> bool:
    """Whether the ledger has the selection."""
    ledger = Ledger(settings.home / FILE)
    return selection_entry.selection_charge(ledger, folder.ledger_name) is not None


def execute(folder: SweepFolder, services: Services, *, prepared: Prepared) -> str | None:
    """Draw the trials where that has not been done, charge them, run them and release the best;
    returns why results are missing in the tracking store, or None.

    Raises: InvalidInput where the data set's total does not permit the selection; TrialFailed where
    a trial failed, and then nothing is released; Interrupted.
    """
    assert prepared.price is not None
    vault, ledger = Vault(folder), Ledger(services.settings.home / FILE)
    with (
        storage_faults(folder),
        folder.hold_lock(),
        interrupts.stop_when(lambda: folder.is_stop_requested) as stop_requested,
    ):
        if copies := [copy.name for copy in folder.copies()]:
            raise InvalidInput(
                f"expected one folder of the private selection {folder.name}, got a copy,"
                f" {copies[0]}: the best of either would be a release of its own"
            )
        if not vault.is_sealed:
            _draw(folder, vault, prepared, services.settings)
        data = training_data(prepared.plan.to_run[0].config, services.settings)
        _charge(folder, ledger, data, prepared.price)
        try:
            records = _run(folder, vault, ledger, services, prepared, stop_requested=stop_requested)
        except Interrupted:
            raise Interrupted(f"interrupted; `sweep resume {folder.name}` continues") from None
        release_best(folder, vault, search.best_of(records), prepared.price.to_dict())
        for record in folder.records(running=False):
            services.watch("sealed", _progress_of(record))
    return services.tracker.deliver(folder, running=False)


def _draw(folder: SweepFolder, vault: Vault, prepared: Prepared, settings: Settings) -> None:
    """Draw the trials by the home's key and the sweep's id, and write them to the vault."""
    assert prepared.price is not None
    space, account = prepared.space, accounting(settings)
    secret = HomeKey((settings.home / FILE).with_suffix(".key")).read()
    random = search.random_of(secret, str(folder.about()["id"]))
    number = search.draw_number(search.law_of(space), random)
    trials = []
    points = search.draw_points(space, prepared.plan.to_run, number, random)
    names = [f"draw-{random.bytes(4).hex()}" for _ in points]  # from which no number follows
    for name, point in zip(names, points, strict=True):
        trial = plan_point(space, point, account=account)
        _require_priced(trial, prepared.price, account)
        # The same configuration may be drawn twice, and is then two trials.
        trials.append(replace(trial, id=name))
    vault.seal(space, Plan(name=space.name, trials=tuple(trials)))


def _require_priced(trial: PlannedTrial, price: SelectionPrice, account: Account) -> None:
    """Raises: InvalidInput for a trial whose release is not covered by the price."""
    if trial.runs:
        found = account(trial.config).mechanism
        if accountants.release(found) in price.configurations:
            return
    raise InvalidInput(
        "expected the same epsilon for every point of the space with strategy"
        " private_selection: a value inside a range changes it"
    )


def _charge(folder: SweepFolder, ledger: Ledger, data: TrainingData, price: SelectionPrice) -> None:
    """Charge the selection once, before anything starts.

    Raises: InvalidInput where the data set's total over all sweeps does not permit it.
    """
    name, limit = folder.ledger_name, folder.about().get("budget_total")
    if selection_entry.selection_charge(ledger, name) is not None:
        return
    ledger.register(data.fingerprint, data.texts())
    entry = selection_entry.entry_of(price.release, delta=price.delta, data=data, sweep=name)
    if limit is None:
        ledger.charge(entry)
    elif (reason := ledger.charge_within(entry, budget_total=limit)) is not None:
        raise InvalidInput(reason)


def _run(
    folder: SweepFolder,
    vault: Vault,
    ledger: Ledger,
    services: Services,
    prepared: Prepared,
    *,
    stop_requested: Callable[[], bool],
) -> list[TrialRecord]:
    """Run every trial of the vault to its end.

    Raises: TrialFailed where one failed, because the best of the others is not the priced release.
    Its reason is in the vault, because it is an outcome of a trial that is not released.
    """
    draws = vault.draws
    running = Progress(
        name=_NAME,
        status=TrialStatus.RUNNING,
        epochs_done=0,
        epochs=services.executed.max_epochs,
        epsilon=prepared.price.epsilon_selected if prepared.price else None,
    )
    priced = priced_trials(
        draws.plan().trials, services.settings, ledger=ledger, share=services.executed
    )
    with draws.hold_lock():
        gate = open_gate(draws, priced, ledger=Ledger(vault.ledger_file))
        # In the vault, because figures of drawn trials say which were drawn.
        journal = Journal(draws, figures=FigureCache(vault.path / "cache"))
        # The progress shown is always the same: that trials run.
        driver = Driver(gate, journal, watch=lambda *_: services.watch("sealed", running))
        phases.enter(phases.TRAINING)
        journal.keep_time(gate.time)
        try:
            sealed = replace(services, executed=replace(services.executed, sealed=True))
            run_pending(draws, sealed, driver=driver, stop_requested=stop_requested)
        finally:
            journal.close(gate.time)
    records = draws.records(running=False)
    if not all(record.status.is_finished for record in records):
        raise TrialFailed(
            "a draw failed, so nothing is released; its reason is in the vault, for the curator"
            f" alone: `sweep resume {folder.name}` runs it again"
        )
    return records


def _progress_of(record: TrialRecord) -> Progress:
    return Progress(
        name=_NAME,
        status=record.status,
        epochs_done=record.epochs_done,
        epochs=record.plan.epochs,
        validation=goals.validation_figure(record.metrics),
        epsilon=record.metrics.get(EPSILON),
    )

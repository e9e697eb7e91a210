"""Runs a private selection. Its trials are drawn beforehand and charged as a whole. They run in the
vault, and only the fact that they run is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from sweep import interrupts, phases
from sweep.planning.accounting import accounting
from sweep.planning.packing import Packing
from sweep.planning.plan import plan_point
from sweep.planning.prepare import Prepared, prepare_space
from sweep.planning.pricing import price as priced_trials
from sweep.planning.selection_price import SelectionPrice
from sweep.results.selected_trial import release_best
from sweep.results.tables.progress import Progress
from sweep.runtime import preflight
from sweep.runtime.driver import Driver
from sweep.runtime.events import Interrupted, RunSettings
from sweep.runtime.execution import Watch, deliver_all, run_pending
from sweep.runtime.journal import Journal
from sweep.search import private_selection as search
from sweep.settings import Settings
from sweep.spending import selection_entry
from sweep.spending.account import Account
from sweep.spending.home_key import HomeKey
from sweep.spending.ledger import FILE, Ledger
from sweep.spending.open_gate import open_gate
from sweep.spending.training_data import TrainingData, training_data
from sweep.store import sweeps as store
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.provenance import about
from sweep.store.status import TrialStatus
from sweep.store.storage_faults import storage_faults
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.store.vault import Vault
from trainables import accountants, goals
from trainables.errors import InvalidInput, TrialFailed
from trainables.figure_cache import FigureCache
from trainables.figures import EPSILON

Begin = Callable[[RunSettings], AbstractContextManager[Any]]
_NAME = "the best of a secret number of trials"


@dataclass(frozen=True, kw_only=True)
class _Services:
    """The services that a run uses."""

    settings: Settings
    tracker: Any
    packing: Packing
    executed: RunSettings
    watch: Watch


def start(
    prepared: Prepared,
    settings: Settings,
    *,
    begin: Begin,
    command: Sequence[str],
    address: str | None,
    budget_total: float | None,
    function: str,
    watch: Watch,
) -> tuple[SweepFolder, str | None]:
    """Run a new private selection to its end. Returns its folder, and why results are missing in
    the tracking store, or None.

    `begin` starts the services that the trials need, as in `resume`. Raises: as `runner.start`,
    and TrialFailed if a trial failed; then nothing is released.
    """
    space, trials = prepared.space, prepared.plan.to_run
    store.require_free(settings.home, space.name)
    packing, executed = preflight.prepare(
        space, trials, settings, address=address, function=function
    )
    data = training_data(trials[0].config, settings)
    if budget_total is not None and prepared.price is not None:
        Ledger(settings.home / FILE).require_within(
            data.fingerprint,
            [prepared.price.release],
            budget_total=budget_total,
            delta=prepared.price.delta,
        )
    with begin(executed) as tracker:
        preflight.require_room(space, packing, trials, settings, executed)
        facts = {**about(command), "budget_total": budget_total}
        if prepared.price is not None:
            facts["selection"] = prepared.price.to_dict()
        empty = Plan(name=space.name, trials=())
        folder = store.create(settings.home, space, empty, about=facts)
        services = _Services(
            settings=settings, tracker=tracker, packing=packing, executed=executed, watch=watch
        )
        try:
            problem = _execute(folder, services, prepared=prepared)
        except InvalidInput:
            if (
                selection_entry.selection_charge(Ledger(settings.home / FILE), folder.ledger_name)
                is None
            ):
                folder.delete()  # refused before anything ran, so the name is freed
            raise
    return folder, problem


def resume(
    folder: SweepFolder,
    settings: Settings,
    *,
    begin: Begin,
    track: Callable[[], AbstractContextManager[Any]],
    address: str | None,
    function: str,
    watch: Watch,
) -> str | None:
    """Resume a private selection with the same trials; ended ones are kept. Returns why results
    are missing in the tracking store, or None. `track` starts tracking alone.

    Raises: as `start`.
    """
    vault, space = Vault(folder), folder.space()
    if vault.is_over or folder.is_unsealed:
        with track() as tracker:
            return deliver_all(tracker, folder)
    prepared = prepare_space(space, settings=settings, is_new=False)
    trials = vault.draws.plan().trials if vault.is_sealed else prepared.plan.to_run
    packing, executed = preflight.prepare(
        space, trials or prepared.plan.to_run, settings, address=address, function=function
    )
    with begin(executed) as tracker:
        preflight.require_room(space, packing, trials, settings, executed)
        services = _Services(
            settings=settings, tracker=tracker, packing=packing, executed=executed, watch=watch
        )
        return _execute(folder, services, prepared=prepared)


def _execute(folder: SweepFolder, services: _Services, *, prepared: Prepared) -> str | None:
    assert prepared.price is not None
    vault, ledger = Vault(folder), Ledger(services.settings.home / FILE)
    with (
        storage_faults(folder),
        folder.hold_lock(),
        interrupts.stop_when(lambda: folder.is_stop_requested) as stop_requested,
    ):
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
    return deliver_all(services.tracker, folder)


def _draw(folder: SweepFolder, vault: Vault, prepared: Prepared, settings: Settings) -> None:
    """Draw the trials by the home's key and the sweep's id, and write them to the vault."""
    assert prepared.price is not None
    space, account = prepared.space, accounting(settings)
    secret = HomeKey((settings.home / FILE).with_suffix(".key")).read()
    random = search.random_of(secret, str(folder.about()["id"]))
    number = search.draw_number(search.law_of(space), random)
    trials = []
    points = search.draw_points(space, prepared.plan.to_run, number, random)
    for index, point in enumerate(points):
        trial = plan_point(space, point, account=account)
        _require_priced(trial, prepared.price, account)
        # The same configuration may be drawn twice, and is then two trials.
        trials.append(replace(trial, id=f"draw-{index:04d}"))
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
    services: _Services,
    prepared: Prepared,
    *,
    stop_requested: Callable[[], bool],
) -> list[TrialRecord]:
    """Run every trial of the vault to its end.

    Raises: TrialFailed where one failed, because the best of the others is not the priced release.
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
        draws.plan().trials, services.settings, ledger=ledger, packing=services.packing
    )
    with draws.hold_lock():
        gate = open_gate(draws, priced, ledger=Ledger(vault.ledger_file))
        journal = Journal(draws, figures=FigureCache(services.settings.cache_dir))
        # The progress shown is always the same: that trials run.
        driver = Driver(gate, journal, watch=lambda *_: services.watch("sealed", running))
        phases.enter(phases.TRAINING)
        journal.keep_time(gate.time)
        try:
            run_pending(
                draws,
                services.packing,
                services.executed,
                driver=driver,
                stop_requested=stop_requested,
            )
        finally:
            journal.close(gate.time)
    records = draws.records(running=False)
    failed = [record for record in records if not record.status.is_finished]
    if failed:
        raise TrialFailed(
            "a sealed trial failed, so nothing is released"
            f" ({failed[0].reason or failed[0].status}): `sweep resume {folder.name}` runs it again"
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

"""Runs or resumes a planned sweep, and connects the executors with disk, ledger and MLflow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from sweep import interrupts, phases
from sweep.planning import ledger_check
from sweep.planning.plan import require_trials
from sweep.planning.prepare import Prepared, prepare_space
from sweep.planning.pricing import fixed_filter, price, require_total
from sweep.results import leakage
from sweep.runtime import preflight, ray_session
from sweep.runtime.driver import Driver, Watch, progress_of, run_trials
from sweep.runtime.events import TRIAL_FUNCTION, Interrupted, RayFailed, RunSettings, TrialJob
from sweep.runtime.jobs import ChosenJobs, job_of
from sweep.runtime.ray_metrics import record_metrics
from sweep.settings import Settings
from sweep.spending.gate import SpendGate, open_gate
from sweep.spending.ledger import FILE, Ledger
from sweep.store import sweeps as store
from sweep.store.data_sets import training_data
from sweep.store.entries import Turn
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, about, require_storage, storage_faults
from sweep.tracking.delivery import Delivery, Tracking, for_sweep
from trainables.config import TrialConfig
from trainables.errors import InvalidData, InvalidInput, SweepError
from trainables.figure_cache import FigureCache
from trainables.system import checkpoint

# Seconds that the end of a sweep waits for the tracking store; the rest is delivered later.
_PATIENCE_SECONDS, _PATIENCE_WHEN_STOPPING = 60.0, 3.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """The folder of the sweep, and why results are missing in the tracking store, or None."""

    folder: SweepFolder
    tracking_problem: str | None


@dataclass
class Services:
    """What a sweep of that name runs with: its space and plan, of which the trials `waiting` are
    still to run. `watch` is called with each trial's progress.
    """

    name: str
    prepared: Prepared
    waiting: Sequence[PlannedTrial]
    settings: Settings
    executed: RunSettings
    watch: Watch

    def __post_init__(self) -> None:
        self.tracker = Tracking(self.settings, self.name)

    def rehearse(self, config: TrialConfig) -> None:
        """Raises: InvalidInput as `preflight.rehearse`."""
        if self.executed.function == TRIAL_FUNCTION:
            preflight.rehearse(config, self.settings)


def start(
    prepared: Prepared,
    settings: Settings,
    *,
    command: Sequence[str] = (),
    address: str | None = None,
    budget_total: float | None = None,
    function: str = TRIAL_FUNCTION,
    watch: Watch = lambda trial_id, progress: None,
) -> Run:
    """Run a new sweep to its end.

    `budget_total` bounds the spend of a data set over all sweeps, this one included.

    Raises: InvalidInput, with nothing written, for a plan without trials, data that cannot be read,
    too few resources, a name that exists, a tracking server that does not answer, a data set whose
    total would exceed `budget_total`; Interrupted.
    """
    from sweep.runtime.selection import run as selection

    space, plan, selected = prepared.space, prepared.plan, prepared.price
    require_trials(plan)
    store.require_free(settings.home, space.name)
    executed = preflight.prepare(
        prepared, plan.to_run, settings, address=address, function=function
    )
    services = Services(space.name, prepared, plan.to_run, settings, executed, watch)
    for trial in plan.to_run:
        training_data(trial.config, settings)
    preflight.rehearse_first(prepared, services.rehearse)
    if budget_total is not None:
        _require_total(prepared, settings, budget_total=budget_total)
    facts = {**about(command), "budget_total": budget_total, "tracking": settings.tracking}
    if selected is not None:
        facts["selection"] = selected.to_dict()
        plan = Plan(name=space.name, trials=())  # its trials are drawn, and sealed
    with _ready(services, is_new=True):
        folder = store.create(settings.home, space, plan, about=facts)
        try:
            problem = execute(folder, services)
        except InvalidInput:
            paid = selected is not None and selection.is_charged(folder, settings)
            if not (paid or folder.state().begun):  # it frees its name
                services.tracker.delete(folder)
                folder.delete()
            raise
    return Run(folder=folder, tracking_problem=problem)


def resume(
    folder: SweepFolder,
    settings: Settings,
    *,
    take_up: Sequence[str] = (),
    address: str | None = None,
    function: str = TRIAL_FUNCTION,
    watch: Watch = lambda trial_id, progress: None,
) -> Run:
    """Resume a sweep. Unfinished trials, and the stopped ones in `take_up`, continue from their
    last checkpoint. A tracking server that does not answer gets the results later.

    Raises: InvalidInput if it is running or a trial cannot be continued, or as `start`.
    """
    from sweep.runtime.selection import run as selection

    if folder.is_running:
        raise store.running_already(folder.name)
    settings = for_sweep(settings, folder)
    stopped = _require_stopped(folder, take_up)
    waiting = preflight.with_their_encoders(folder, stopped)
    prepared = Prepared(space=folder.space(), plan=folder.plan(), notes=())
    if prepared.space.search.is_private_selection:
        if selection.is_over(folder):
            tracker = Tracking(settings, folder.name)
            tracker.open(must_answer=False)
            return Run(folder=folder, tracking_problem=tracker.deliver(folder, running=False))
        prepared = prepare_space(prepared.space, settings=settings)
        waiting = list(prepared.plan.to_run)  # whatever was drawn
    else:
        for record in folder.records(running=False):
            watch(record.plan.id, progress_of(record))
    executed = preflight.prepare(prepared, waiting, settings, address=address, function=function)
    services = Services(folder.name, prepared, waiting, settings, executed, watch)
    with _ready(services, is_new=False):
        problem = execute(folder, services, stopped=stopped)
    return Run(folder=folder, tracking_problem=problem)


@contextmanager
def _ready(services: Services, *, is_new: bool) -> Iterator[None]:
    """MLflow, which must answer a new sweep, and Ray where it is needed, for the time of the block.
    MLflow is imported here and nowhere earlier.

    Raises: StorageFailed where the disk fails; as `Tracking.open`, `ray_session.session` and
    `preflight.require_room`.
    """
    require_storage(services.settings)
    executed, tracker = services.executed, services.tracker
    # A resumed search starts Ray once it has chosen a trial.
    is_shared = executed.address is not None
    at_once = is_new or services.waiting or (is_shared and services.prepared.plan.to_choose)
    if executed.executor == "local" or not at_once:
        phases.enter(phases.OPENING_MLFLOW)
        tracker.open(must_answer=is_new)
        yield
        return
    phases.enter(phases.STARTING_RAY)
    ray_session.set_environment(executed)
    # Ray's start is mostly work of other processes; meanwhile this one imports what drives trials
    # and opens MLflow's store. Ray starts in this thread because it sets signal handlers, which
    # only the main thread can.
    with ThreadPoolExecutor(1, thread_name_prefix="start-up") as threads:
        threads.submit(importlib.import_module, "sweep.runtime.tune")
        opening = threads.submit(tracker.open, must_answer=is_new)
        with ray_session.session(executed):
            opening.result()
            if is_shared:
                services.executed = preflight.require_room(
                    services.prepared, services.waiting, services.settings, executed
                )
            yield


@contextmanager
def held(folder: SweepFolder) -> Iterator[Callable[[], bool]]:
    """Hold the lock of a sweep; yields whether it is to stop.

    Raises: InvalidInput where another process runs it; StorageFailed where the disk fails;
    SweepError where Ray does; Interrupted.
    """
    try:
        with (
            storage_faults(folder),
            folder.hold_lock(),
            interrupts.stop_when(lambda: folder.is_stop_requested) as is_stopped,
        ):
            yield is_stopped
    except Interrupted:
        raise Interrupted(f"interrupted; `sweep resume {folder.name}` continues") from None
    except RayFailed as problem:
        saved = f"finished epochs are saved: `sweep resume {folder.name}` continues"
        raise SweepError(f"{problem}; {saved}") from None


def execute(
    folder: SweepFolder, services: Services, *, stopped: Sequence[PlannedTrial] = ()
) -> str | None:
    """Run unfinished trials and continue the `stopped` ones; returns why results are missing in
    the tracking store, or None.

    Raises: as `held`; InvalidInput where a stopped trial has no budget left.
    """
    from sweep.runtime.selection import run as selection

    if services.prepared.price is not None:
        return selection.execute(folder, services, services.prepared.price)
    settings, executed = services.settings, services.executed
    watch = record_metrics(services.watch, folder)
    with held(folder) as is_stopped:
        ledger = Ledger(settings.home / FILE)
        pricing = partial(price, settings=settings, ledger=ledger, share=executed)
        priced = pricing(folder.plan().trials)
        ledger_check.require_paid(folder, ledger)
        gate = open_gate(
            folder,
            priced,
            ledger=ledger,
            total_filter=fixed_filter(folder, ledger),
            budget_total=folder.about().get("budget_total"),
        )
        _reopen(folder, gate, stopped)
        for record in folder.records(running=False):
            watch(record.plan.id, progress_of(record))
        delivery = Delivery(services.tracker, folder)
        driver = Driver(
            gate,
            folder,
            figures=FigureCache(settings.cache_dir),
            delivery=delivery,
            watch=watch,
            rehearse=services.rehearse,
        )
        is_adaptive = services.prepared.space.search.is_adaptive
        source = ChosenJobs(folder, settings, gate, price=pricing) if is_adaptive else None
        try:
            run_pending(folder, executed, driver, stop_requested=is_stopped, source=source)
            phases.enter(phases.COMPARING)
            leakage.write_panels(folder)
        finally:
            phases.enter(phases.DELIVERING)
            patience = _PATIENCE_WHEN_STOPPING if interrupts.is_stopping() else _PATIENCE_SECONDS
            problem = delivery.close(timeout=patience)
            if problem is None:
                problem = services.tracker.deliver(folder, running=False)
    return problem


def run_pending(
    folder: SweepFolder,
    executed: RunSettings,
    driver: Driver,
    *,
    stop_requested: Callable[[], bool],
    source: ChosenJobs | None = None,
) -> None:
    """Run unfinished trials: first those that the user continued, which no scheduler stops, then
    the others.

    Raises: as `run_trials`.
    """
    phases.enter(phases.TRAINING)
    taken_up: list[TrialJob] = []
    others: list[TrialJob] = []
    for record in folder.records(running=False):
        if record.status.is_resumed:
            workers = executed.processes(record.plan.config.training.num_workers)
            job = job_of(record.plan, folder, workers=workers)
            is_taken_up = folder.state().trial(job.trial_id).is_taken_up
            (taken_up if is_taken_up else others).append(job)
    if source is not None and not (taken_up or others):
        # Ray need not start for a search that is over.
        first = source.next()
        source, others = (None, []) if first is None else (source, [first])
    run = partial(run_trials, events=driver, stop_requested=stop_requested)
    with driver:
        run(taken_up, settings=replace(executed, scheduler="none"))
        run(others, settings=executed, source=source)


def _require_stopped(folder: SweepFolder, trial_ids: Sequence[str]) -> list[PlannedTrial]:
    """The plans of trials (by ids or prefixes of them) that can be continued from their checkpoint.

    Raises: InvalidInput for one that was not stopped, or whose checkpoint is missing.
    """
    found = {}
    for trial_id in trial_ids:
        trial = folder.plan_of(trial_id)
        record = folder.record(trial, running=False)
        if record.status is not TrialStatus.STOPPED:
            raise InvalidInput(
                f"expected --continue with a trial that was stopped, got {trial.id},"
                f" which is {record.status}"
            )
        if not checkpoint.is_there(folder.trial_folder(trial.id)):
            raise InvalidInput(f"trial {trial.id} has no checkpoint to continue from")
        found[trial.id] = trial
    return list(found.values())


def _reopen(folder: SweepFolder, gate: SpendGate, trials: Sequence[PlannedTrial]) -> None:
    """Make stopped trials unfinished again; the earlier result of each is kept, and the additional
    epochs will be charged.

    Raises: InvalidInput, with nothing changed, where a budget does not permit another epoch of one.
    """
    for trial in trials:
        done = folder.state().trial(trial.id).epochs_done
        reason = gate.begin(trial.id, attempt=1, epochs_done=done, write=False)
        if reason is not None:
            raise InvalidInput(f"trial {trial.id} cannot continue: {reason}")
    for trial in trials:
        folder.add(Turn(entry="reopened", trial=trial.id))


def _require_total(prepared: Prepared, settings: Settings, *, budget_total: float) -> None:
    """Raises: InvalidInput where this sweep would exceed `budget_total` for a data set; InvalidData
    where the ledger is known to have lost a charge.
    """
    for lost in ledger_check.check(settings):
        if lost.epochs:
            raise InvalidData(
                f"expected a whole ledger with --budget-total, got {lost.problem} ({lost.sweep}):"
                " `sweep ledger --check` lists what is missing, --repair charges it"
            )
    ledger, selected = Ledger(settings.home / FILE), prepared.price
    priced = price(prepared.plan.to_run, settings, ledger=ledger)
    if selected is None:
        require_total(priced, ledger, budget_total=budget_total)
    else:
        ledger.require_within(
            priced[0].dataset, [selected.release], budget_total=budget_total, delta=selected.delta
        )

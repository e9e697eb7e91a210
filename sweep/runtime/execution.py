"""Executes the trials of a sweep whose lock this process holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sweep import interrupts, phases
from sweep.planning import cost
from sweep.planning.accounting import accounting
from sweep.planning.plan import plan_point
from sweep.planning.pricing import fixed_filter, price
from sweep.results import leakage
from sweep.results.tables.progress import Progress
from sweep.runtime import continuation, preflight
from sweep.runtime.driver import Driver
from sweep.runtime.events import TRIAL_FUNCTION, Interrupted, JobSource, RunSettings, TrialJob
from sweep.runtime.execute import run_trials
from sweep.runtime.journal import Journal
from sweep.runtime.ray_metrics import record_metrics
from sweep.runtime.search_jobs import ChosenJobs
from sweep.search.source import earlier_records
from sweep.settings import Settings
from sweep.spending.gate import SpendGate, open_gate, require_paid
from sweep.spending.ledger import FILE, Ledger
from sweep.store.plans import PlannedTrial
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord, storage_faults
from sweep.tracking.delivery import Delivery, Tracking
from trainables import goals
from trainables.figure_cache import FigureCache

Watch = Callable[[str, Progress], None]
# Seconds that the end of a sweep waits for the tracking store; the rest is delivered later.
_PATIENCE_SECONDS, _PATIENCE_WHEN_STOPPING = 60.0, 3.0


@dataclass(frozen=True, kw_only=True)
class Services:
    """What the trials of a sweep run with. `watch` is called with each trial's progress."""

    settings: Settings
    tracker: Tracking
    executed: RunSettings
    watch: Watch


def execute(
    folder: SweepFolder, services: Services, *, stopped: Sequence[PlannedTrial] = ()
) -> str | None:
    """Run unfinished trials and continue the `stopped` ones; returns why results are missing in
    the tracking store, or None.

    Raises: InvalidInput where another process runs the sweep, or a stopped trial has no budget
    left; StorageFailed where the disk fails; Interrupted.
    """
    settings, executed = services.settings, services.executed
    watch = record_metrics(services.watch, folder)
    with (
        storage_faults(folder),
        folder.hold_lock(),
        interrupts.stop_when(lambda: folder.is_stop_requested) as is_stopped,
    ):
        records = folder.records(running=False)
        ledger = Ledger(settings.home / FILE)
        pricing = partial(price, settings=settings, ledger=ledger, share=executed)
        priced = pricing([record.plan for record in records])
        require_paid(folder, priced, ledger=ledger)
        gate = open_gate(
            folder,
            priced,
            ledger=ledger,
            total_filter=fixed_filter(folder, settings, ledger=ledger),
            budget_total=folder.about().get("budget_total"),
        )
        continuation.reopen(folder, gate, stopped)
        if stopped:  # which are unfinished now
            records = folder.records(running=False)
        for record in records:
            watch(record.plan.id, progress_of(record))
        delivery = Delivery(services.tracker, folder)
        journal = Journal(folder, figures=FigureCache(settings.cache_dir))
        driver = Driver(gate, journal, delivery=delivery, watch=watch)
        if executed.function == TRIAL_FUNCTION:
            driver.rehearse = partial(preflight.rehearse, settings=settings)
        source = _source(folder, services, gate=gate, pricing=pricing)
        phases.enter(phases.TRAINING)
        journal.keep_time(gate.time)
        try:
            run_pending(folder, services, driver=driver, stop_requested=is_stopped, source=source)
            phases.enter(phases.COMPARING)
            leakage.write_panels(folder)
        except Interrupted:
            raise Interrupted(f"interrupted; `sweep resume {folder.name}` continues") from None
        finally:
            journal.close(gate.time)
            phases.enter(phases.DELIVERING)
            patience = _PATIENCE_WHEN_STOPPING if interrupts.is_stopping() else _PATIENCE_SECONDS
            problem = delivery.close(timeout=patience)
            if problem is None:
                problem = services.tracker.deliver(folder, running=False)
    return problem


def run_pending(
    folder: SweepFolder,
    services: Services,
    *,
    driver: Driver,
    stop_requested: Callable[[], bool],
    source: JobSource | None = None,
) -> None:
    """Run unfinished trials: first those that the user continued, which no scheduler stops, then
    the others.

    Raises: Interrupted.
    """
    jobs = {
        record.plan.id: _job(record.plan, folder, services.executed, epochs_done=record.epochs_done)
        for record in folder.records(running=False)
        if record.status.is_resumed
    }
    taken_up = [job for name, job in jobs.items() if folder.is_taken_up(name)]
    ids = {job.trial_id for job in taken_up}
    others = [job for name, job in jobs.items() if name not in ids]
    if source is not None and not jobs:
        # Ray need not start for a search that is over.
        first = source.next()
        source, others = (None, []) if first is None else (source, [first])
    run = partial(run_trials, events=driver, stop_requested=stop_requested)
    run(taken_up, settings=replace(services.executed, scheduler="none"))
    run(others, settings=services.executed, source=source)


def _source(
    folder: SweepFolder,
    services: Services,
    *,
    gate: SpendGate,
    pricing: Callable[[Sequence[PlannedTrial]], list[Any]],
) -> JobSource | None:
    """The source of further trials; None where the plan has them all."""
    space, settings = folder.space(), services.settings
    if not space.search.is_adaptive:
        return None
    return ChosenJobs(
        folder,
        plan_of=partial(
            plan_point,
            space,
            account=accounting(settings),
            seconds_of=cost.estimator(settings.home),
        ),
        earlier=earlier_records(space, settings.home, folder=folder),
        gate=gate,
        price=lambda trial: pricing([trial])[0],
        job=lambda trial: _job(trial, folder, services.executed),
    )


def _job(
    trial: PlannedTrial, folder: SweepFolder, executed: RunSettings, *, epochs_done: int = 0
) -> TrialJob:
    return TrialJob(
        trial_id=trial.id,
        config=trial.config,
        folder=folder.start_folder(trial.id),
        workers=executed.processes(trial.config.training.num_workers),
        epochs_done=epochs_done,
        point={"variant": trial.variant, **trial.values},
    )


def progress_of(record: TrialRecord) -> Progress:
    """Progress of a trial that no process trains; one that is run again is planned."""
    return Progress(
        name=record.plan.name,
        status=TrialStatus.PLANNED if record.status.is_resumed else record.status,
        epochs_done=record.epochs_done,
        epochs=record.plan.epochs,
        plan=record.plan,
        validation=goals.validation_figure(record.metrics),
        epsilon=record.metrics.get("epsilon_spent"),
    )

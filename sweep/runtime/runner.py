"""Runs or resumes a planned sweep, and connects the executors with disk, ledger and MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from sweep.planning import ledger_check
from sweep.planning.prepare import Prepared, prepare_space
from sweep.planning.pricing import price, require_total, total_filter
from sweep.planning.refusals import require_trials
from sweep.runtime import continuation, preflight
from sweep.runtime.events import TRIAL_FUNCTION, RunSettings
from sweep.runtime.execution import Services, Watch, execute, progress_of
from sweep.runtime.selection import run as selection
from sweep.runtime.start_up import tracking, tracking_and_ray
from sweep.settings import Settings
from sweep.spending.ledger import FILE, Ledger
from sweep.store import sweeps as store
from sweep.store.data_sets import training_data
from sweep.store.plans import Plan
from sweep.store.sweeps import SweepFolder, about, require_storage
from sweep.tracking.delivery import Tracking, for_sweep
from trainables.errors import InvalidData, InvalidInput


@dataclass(frozen=True, kw_only=True)
class Run:
    """The folder of the sweep, and why results are missing in the tracking store, or None."""

    folder: SweepFolder
    tracking_problem: str | None


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
    require_trials(prepared.plan)
    space, plan, selected = prepared.space, prepared.plan, prepared.price
    store.require_free(settings.home, space.name)
    executed = preflight.prepare(space, plan.to_run, settings, address=address, function=function)
    for trial in plan.to_run:
        training_data(trial.config, settings)
    if function == TRIAL_FUNCTION:
        preflight.rehearse_first(plan.to_run, settings, all_of_them=selected is not None)
    if budget_total is not None:
        _require_total(prepared, settings, executed, budget_total=budget_total)
    total_filter(space, settings)
    with _services(settings, executed, sweep=space.name, must_answer=True) as tracker:
        executed = preflight.require_room(space, plan.to_run, settings, executed)
        facts = {
            **about(command),
            "budget_total": budget_total,
            "tracking": settings.tracking,
        }
        if selected is not None:
            facts["selection"] = selected.to_dict()
            plan = Plan(name=space.name, trials=())  # its trials are drawn, and sealed
        folder = store.create(settings.home, space, plan, about=facts)
        services = Services(settings=settings, tracker=tracker, executed=executed, watch=watch)
        try:
            if selected is None:
                problem = execute(folder, services)
            else:
                problem = selection.execute(folder, services, prepared=prepared)
        except InvalidInput:
            if selected is None or not selection.is_charged(folder, settings):
                _undo(folder, tracker)
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
    if folder.is_running:
        raise store.running_already(folder.name)
    settings = for_sweep(settings, folder)
    stopped = continuation.require_stopped(folder, take_up)
    waiting = preflight.with_their_encoders(folder, stopped)
    space = folder.space()
    if space.search.is_private_selection:
        if selection.is_over(folder):
            with tracking(settings, sweep=folder.name, must_answer=False) as tracker:
                problem = tracker.deliver(folder, running=False)
            return Run(folder=folder, tracking_problem=problem)
        prepared = prepare_space(space, settings=settings, is_new=False)
        jobs = waiting = list(prepared.plan.to_run)  # whatever was drawn
        work = partial(selection.execute, prepared=prepared)
    else:
        for record in folder.records(running=False):
            watch(record.plan.id, progress_of(record))
        jobs = list(folder.plan().to_run)
        work = partial(execute, stopped=stopped)
    executed = preflight.prepare(
        space, jobs, settings, address=address, function=function, waiting=waiting
    )
    # A resumed search starts Ray once it has chosen a trial.
    at_once = bool(waiting) or (address is not None and space.search.is_adaptive)
    opening = partial(_services, executed=executed) if at_once else tracking
    with opening(settings, sweep=folder.name, must_answer=False) as tracker:
        if at_once:
            executed = preflight.require_room(space, waiting, settings, executed)
        services = Services(settings=settings, tracker=tracker, executed=executed, watch=watch)
        problem = work(folder, services)
    return Run(folder=folder, tracking_problem=problem)


def _services(
    settings: Settings, executed: RunSettings, *, sweep: str, must_answer: bool
) -> AbstractContextManager[Tracking]:
    """MLflow, and Ray where the trials need it.

    Raises: StorageFailed where the disk fails; as `tracking` and `tracking_and_ray`.
    """
    require_storage(settings)
    if executed.executor == "local":
        return tracking(settings, sweep=sweep, must_answer=must_answer)
    return tracking_and_ray(settings, executed, sweep=sweep, must_answer=must_answer)


def _require_total(
    prepared: Prepared, settings: Settings, executed: RunSettings, *, budget_total: float
) -> None:
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
    if selected is not None:
        data = training_data(prepared.plan.to_run[0].config, settings)
        ledger.require_within(
            data.fingerprint, [selected.release], budget_total=budget_total, delta=selected.delta
        )
        return
    priced = price(prepared.plan.to_run, settings, ledger=ledger, share=executed)
    require_total(priced, ledger, budget_total=budget_total)


def _undo(folder: SweepFolder, tracker: Tracking) -> None:
    """Remove a sweep that was refused before any trial began, which frees its name."""
    if folder.state().begun:
        return
    tracker.delete(folder)
    folder.delete()

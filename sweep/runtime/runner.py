"""Running a planned sweep, or going on with one: the executors on one side, disk, ledger and MLflow
on the other.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from search_spaces.space import SearchSpace
from sweep.planning import cost
from sweep.planning.accounting import accounting
from sweep.planning.footprints import Footprints
from sweep.planning.pack_trials import packing_for
from sweep.planning.packing import Packing
from sweep.planning.plan import plan_point
from sweep.planning.prepare import Prepared
from sweep.planning.refusals import require_trials
from sweep.results import leakage
from sweep.results.table import Progress
from sweep.runtime import continuation, preflight
from sweep.runtime.driver import Driver, Paid
from sweep.runtime.events import Interrupted, JobSource, RunSettings, TrialJob
from sweep.runtime.execute import run_trials
from sweep.runtime.ray_metrics import recorded
from sweep.runtime.search_jobs import ChosenJobs, workers_of
from sweep.runtime.start_up import tracking, tracking_and_ray
from sweep.search.source import earlier_records
from sweep.settings import Settings
from sweep.spending.filter import filter_delta, filter_of, looks_at_results
from sweep.spending.ledger import FILE, Ledger
from sweep.spending.training_data import training_data
from sweep.store import sweeps as store
from sweep.store.plans import PlannedTrial
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder
from sweep.tracking.delivery import Delivery
from trainables import goals
from trainables.accountants import RdpFilter, Release, release
from trainables.config import parse
from trainables.errors import InvalidInput
from trainables.figure_cache import FigureCache

_PACKAGES = ("dp-nlu-sweep", "torch", "ray", "mlflow", "numpy", "dp-accounting", "transformers")
_TRIAL_FUNCTION = "trainables.trial:run"
Watch = Callable[[str, Progress], None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a call did: the folder, and why the tracking store is behind it, where it is."""

    folder: SweepFolder
    tracking_problem: str | None


def start(
    prepared: Prepared,
    settings: Settings,
    *,
    command: Sequence[str] = (),
    address: str | None = None,
    budget_total: float | None = None,
    function: str = _TRIAL_FUNCTION,
    watch: Watch = lambda trial_id, progress: None,
) -> Run:
    """Run a new sweep to its end.

    `budget_total` bounds what a data set has spent in all sweeps, this one included.

    Raises: InvalidInput, with nothing written, for a plan without trials, data that cannot be read,
    too few resources, a name that exists, a tracking server that does not answer, a data set whose
    total would pass `budget_total`; Interrupted.
    """
    if prepared.space.search.is_private_selection:
        raise InvalidInput("search.strategy: private_selection is planned but cannot be run yet")
    require_trials(prepared.plan)
    store.require_free(settings.home, prepared.space.name)
    preflight.require_executor(prepared.space, address)
    packing = packing_for(prepared.space, prepared.plan.to_run, settings, address=address)
    preflight.require_resources(prepared.space, packing, prepared.plan.to_run, address=address)
    for trial in prepared.plan.to_run:
        training_data(parse(trial.config), settings)
    if budget_total is not None:
        _require_total(prepared, settings, budget_total)
    total_filter(prepared.space, settings)
    executed = preflight.run_settings(
        prepared.space,
        settings,
        packing,
        jobs=prepared.plan.to_run,
        address=address,
        function=function,
    )
    with _started(settings, executed) as tracker:
        preflight.require_room(prepared.space, packing, prepared.plan.to_run, settings, executed)
        facts = {**about(command), "budget_total": budget_total}
        folder = store.create(settings.home, prepared.space, prepared.plan, about=facts)
        try:
            return _execute(
                folder, settings, tracker, packing=packing, executed=executed, watch=watch
            )
        except InvalidInput:
            _undo(folder, tracker)
            raise


def resume(
    folder: SweepFolder,
    settings: Settings,
    *,
    take_up: Sequence[str] = (),
    address: str | None = None,
    function: str = _TRIAL_FUNCTION,
    watch: Watch = lambda trial_id, progress: None,
    say: Callable[[str], None] = lambda text: None,
) -> Run:
    """Go on with a sweep: what has ended well is kept, the rest goes on from its last epoch, and so
    do the stopped trials whose ids `take_up` holds, up to their planned epochs. A tracking server
    that does not answer is told to `say`, and delivered to when it is back.

    Raises: InvalidInput where it is running already, for a trial that cannot be taken up or has no
    budget left, or as `start`; Interrupted.
    """
    if folder.is_running:
        raise store.running_already(folder.name)
    stopped = continuation.require_stopped(folder, take_up)
    waiting = [record.plan for record in folder.records() if record.status.is_resumed]
    waiting += stopped
    preflight.require_ids(waiting)
    space = folder.space()
    preflight.require_executor(space, address)
    planned = folder.plan().to_run
    packing = packing_for(space, planned, settings, address=address)
    preflight.require_resources(space, packing, waiting, address=address)
    executed = preflight.run_settings(
        space, settings, packing, jobs=planned, address=address, function=function
    )

    def away(reason: str) -> None:
        say(f"MLflow is away ({reason}): results are kept on disk and delivered when it is back.")

    # A search that goes on starts a Ray of its own, once it has found something to choose.
    at_once = bool(waiting) or (address is not None and space.search.is_adaptive)
    started = _started(settings, executed, away) if at_once else tracking(settings, away=away)
    with started as tracker:
        if at_once:
            preflight.require_room(space, packing, waiting, settings, executed)
        return _execute(
            folder,
            settings,
            tracker,
            packing=packing,
            executed=executed,
            watch=watch,
            stopped=stopped,
        )


def _started(
    settings: Settings, executed: RunSettings, away: Callable[[str], None] | None = None
) -> AbstractContextManager[Any]:
    """The tracker, and Ray where the trials need it."""
    if executed.executor == "local":
        return tracking(settings, away=away)
    return tracking_and_ray(settings, executed, away=away)


def _undo(folder: SweepFolder, tracker: Any) -> None:
    """A sweep that was refused before any trial began leaves its name to the next."""
    if any((folder.path / "trials").glob("*/config.yaml")):
        return
    with suppress(*tracker.away):
        tracker.delete(folder)
    folder.delete()


def _require_total(prepared: Prepared, settings: Settings, budget_total: float) -> None:
    """Raises: InvalidInput where this sweep would take a data set past `budget_total`."""
    ledger = Ledger(settings.home / FILE)
    planned: dict[str, list[Release]] = {}
    for paid in _paid(list(prepared.plan.to_run), settings, ledger).values():
        if not paid.trial.baseline:
            planned.setdefault(paid.dataset, []).append(release(paid.mechanism))
    for fingerprint, releases in planned.items():
        ledger.require_within(fingerprint, releases, budget_total=budget_total)


def about(command: Sequence[str]) -> dict[str, Any]:
    """What a sweep's results rest on beside its space."""
    return {
        "command": list(command),
        "git_commit": _git_commit(),
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "machine": platform.machine(),
    }


def _execute(
    folder: SweepFolder,
    settings: Settings,
    tracker: Any,
    *,
    packing: Packing,
    executed: RunSettings,
    watch: Watch,
    stopped: Sequence[PlannedTrial] = (),
) -> Run:
    space = folder.space()
    watch = recorded(watch, folder)
    with folder.locked():
        records = folder.records(running=False)
        ledger = Ledger(settings.home / FILE)
        trials = _paid([record.plan for record in records], settings, ledger)
        for record in records:
            watch(record.plan.id, _progress(record))
        delivery = Delivery(tracker, folder)
        driver = Driver(
            folder,
            trials,
            packing=packing,
            ledger=ledger,
            delivery=delivery,
            figures=FigureCache(settings.cache_dir),
            total_filter=total_filter(space, settings),
            budget_total=folder.about().get("budget_total"),
            watch=watch,
        )
        continuation.reopen(folder, driver, stopped)
        source: JobSource | None = None
        if space.search.is_adaptive:
            source = ChosenJobs(
                folder,
                workers=workers_of(space, packing),
                plan_of=partial(
                    plan_point,
                    space,
                    account=accounting(settings),
                    seconds_of=cost.estimator(settings.home, known=Footprints(settings).known),
                ),
                earlier=earlier_records(space, settings.home, folder=folder),
                trials=trials,
                driver=driver,
                pay=lambda trial: _paid([trial], settings, ledger)[trial.id],
                job=lambda trial: _job(folder, packing, trial),
            )
        jobs = {
            record.plan.id: _job(folder, packing, record.plan, epochs_done=record.epochs_done)
            for record in folder.records(running=False)
            if record.status.is_resumed
        }
        chosen = [job for name, job in jobs.items() if continuation.is_taken_up(folder, name)]
        others = [job for job in jobs.values() if job not in chosen]
        try:
            if source is not None and not jobs:
                # Ray need not start for a search that is over.
                first = source.next()
                source, others = (None, []) if first is None else (source, [first])
            run_trials(
                chosen,
                events=driver,
                settings=replace(executed, scheduler="none"),
                stop_asked=lambda: folder.stop_is_asked,
            )
            run_trials(
                others,
                events=driver,
                settings=executed,
                stop_asked=lambda: folder.stop_is_asked,
                source=source,
            )
            leakage.judge(folder)
        except Interrupted:
            raise Interrupted(f"interrupted; `sweep resume {folder.name}` goes on") from None
        finally:
            driver.close()
            problem = delivery.close() or _deliver_all(tracker, folder)
    return Run(folder=folder, tracking_problem=problem)


def total_filter(space: SearchSpace, settings: Settings) -> RdpFilter | None:
    """The privacy filter that the sweep's total is kept by, where its trials look at results."""
    if space.budget.total is None or not looks_at_results(space):
        return None
    return filter_of(space, delta=filter_delta(space, accounting(settings)))


def _job(
    folder: SweepFolder, packing: Packing, trial: PlannedTrial, *, epochs_done: int = 0
) -> TrialJob:
    return TrialJob(
        trial_id=trial.id,
        config=trial.config,
        folder=folder.start_folder(trial.id),
        workers=preflight.workers(packing, trial),
        epochs_done=epochs_done,
    )


def _deliver_all(tracker: Any, folder: SweepFolder) -> str | None:
    """Catch up with all that the disk knows; the problem where the store is away."""
    try:
        tracker.deliver(folder, running=False)
    except tracker.away as problem:
        return str(problem).splitlines()[0][:200]
    return None


def _paid(trials: Sequence[PlannedTrial], settings: Settings, ledger: Ledger) -> dict[str, Paid]:
    """What each trial costs and whose records it is about; their data sets made known."""
    account = accounting(settings)
    found = {}
    for trial in trials:
        if not trial.runs:
            continue
        config = parse(trial.config)
        data = training_data(config, settings)
        ledger.register(data.fingerprint, data.texts())
        found[trial.id] = Paid(
            trial=trial,
            mechanism=account(config, accountant=None, careful=False).mechanism,
            dataset=data.fingerprint,
            dataset_name=data.name,
        )
    return found


def _progress(record: store.TrialRecord) -> Progress:
    return Progress(
        name=record.plan.name,
        status=TrialStatus.PLANNED if record.status is TrialStatus.INTERRUPTED else record.status,
        epochs_done=record.epochs_done,
        epochs=record.plan.epochs,
        validation=goals.validated(record.metrics),
        epsilon=record.metrics.get("epsilon_spent"),
    )


def _git_commit() -> str | None:
    """The commit of this code, where it runs from a checkout."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except OSError:
        return None
    return found.stdout.strip() or None


def _versions() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue

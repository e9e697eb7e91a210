"""Runs or resumes a planned sweep, and connects the executors with disk, ledger and MLflow.

A check before the sweep is created has written nothing, so that the sweep's name stays free.
"""

from __future__ import annotations

import importlib
import os
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sweep import interrupts, phases
from sweep.planning import ledger_check
from sweep.planning.plan import require_trials
from sweep.planning.prepare import Prepared, prepare_space
from sweep.planning.pricing import fixed_filter, price, require_total
from sweep.planning.resources import share_of, this_machine
from sweep.results import leakage
from sweep.runtime import ray_session, selection
from sweep.runtime.driver import Driver, Watch, held, progress_of, run_pending
from sweep.runtime.events import TRIAL_FUNCTION, RunSettings
from sweep.runtime.jobs import ChosenJobs
from sweep.runtime.ray_metrics import record_metrics
from sweep.settings import Settings
from sweep.spending.gate import open_gate
from sweep.spending.ledger import FILE, Ledger
from sweep.store import sweeps as store
from sweep.store.data_sets import open_data
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.sweeps import SweepFolder, Vault, about, require_storage
from sweep.tracking.delivery import Delivery, Tracking, for_sweep
from trainables import catalogue
from trainables.config import TrialConfig
from trainables.errors import InvalidData, InvalidInput, SweepError, words_of
from trainables.figure_cache import FigureCache

# Seconds that the end of a sweep waits for the tracking store; the rest is delivered later.
_PATIENCE_SECONDS, _PATIENCE_WHEN_STOPPING = 60.0, 3.0
_DRY_RUN_SECONDS = 5.0  # of trials before the sweep is created


@dataclass(frozen=True, kw_only=True)
class Run:
    """The folder of the sweep, and why results are missing in the tracking store, or None."""

    folder: SweepFolder
    tracking_problem: str | None


@dataclass
class _Services:
    """What a sweep runs with: its space and plan, of which the trials `waiting` are still to run.
    `watch` is called with each trial's progress.
    """

    prepared: Prepared
    waiting: Sequence[PlannedTrial]
    settings: Settings
    executed: RunSettings
    tracker: Tracking
    watch: Watch


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
    space, plan, selected = prepared.space, prepared.plan, prepared.price
    require_trials(plan)
    store.require_free(settings.home, space.name)
    executed = run_settings(prepared, plan.to_run, settings, address=address, function=function)
    tracker = Tracking(settings, space.name)
    services = _Services(prepared, plan.to_run, settings, executed, tracker, watch)
    # Dry runs that take longer are left for the start of each trial, but in a private selection.
    begun = time.monotonic()
    for trial in plan.to_run:
        if selected is not None or time.monotonic() - begun < _DRY_RUN_SECONDS:
            rehearse(trial.config, settings, function=function)
    if budget_total is not None:
        _require_total(prepared, settings, budget_total=budget_total)
    facts = {**about(command), "budget_total": budget_total, "tracking": settings.tracking}
    if selected is not None:
        facts["selection"] = selected.to_dict()
        plan = Plan(name=space.name, trials=())  # its trials are drawn, and sealed
    with _ready(services, is_new=True):
        folder = store.create(settings.home, space, plan, about=facts)
        try:
            problem = _execute(folder, services)
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
    address: str | None = None,
    function: str = TRIAL_FUNCTION,
    watch: Watch = lambda trial_id, progress: None,
) -> Run:
    """Resume a sweep, whose unfinished trials continue from their last checkpoint. A tracking
    server that does not answer gets the results later.

    Raises: InvalidInput if it is running, or as `start`.
    """
    if folder.is_running:
        raise store.running_already(folder.name)
    settings = for_sweep(settings, folder)
    tracker = Tracking(settings, folder.name)
    prepared = Prepared(space=folder.space(), plan=folder.plan(), notes=())
    waiting = [r.plan for r in folder.records(running=False) if r.status.is_resumed]
    if prepared.space.search.is_private_selection:
        if Vault(folder).is_over:
            tracker.open(must_answer=False)
            return Run(folder=folder, tracking_problem=tracker.deliver(folder, running=False))
        prepared = prepare_space(prepared.space, settings=settings)
        waiting = list(prepared.plan.to_run)  # whatever was drawn
    executed = run_settings(prepared, waiting, settings, address=address, function=function)
    services = _Services(prepared, waiting, settings, executed, tracker, watch)
    with _ready(services, is_new=False):
        problem = _execute(folder, services)
    return Run(folder=folder, tracking_problem=problem)


@contextmanager
def _ready(services: _Services, *, is_new: bool) -> Iterator[None]:
    """MLflow, which must answer a new sweep, and Ray where it is needed, for the time of the block.

    Raises: StorageFailed where the disk fails; as `Tracking.open`, `ray_session.session` and
    `require_room`.
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
                services.executed = require_room(
                    services.prepared, services.waiting, services.settings, executed
                )
            yield


def _execute(folder: SweepFolder, services: _Services) -> str | None:
    """Run unfinished trials; returns why results are missing in the tracking store, or None.

    Raises: as `held`, `selection.execute`.
    """
    prepared, settings, executed = services.prepared, services.settings, services.executed
    if prepared.price is not None:
        with held(folder) as is_stopped:
            selection.execute(
                folder,
                prepared,
                settings,
                executed,
                watch=services.watch,
                stop_requested=is_stopped,
            )
            return services.tracker.deliver(folder, running=False)
    watch = record_metrics(services.watch, folder)
    with held(folder) as is_stopped:
        ledger = Ledger(settings.home / FILE)
        pricing = partial(price, settings=settings, ledger=ledger)
        priced = pricing(folder.plan().trials)
        ledger_check.require_paid(folder, ledger)
        gate = open_gate(folder, priced, ledger=ledger, total_filter=fixed_filter(folder, ledger))
        for record in folder.records(running=False):
            watch(record.plan.id, progress_of(record))
        delivery = Delivery(services.tracker, folder)
        driver = Driver(
            gate,
            folder,
            figures=FigureCache(settings.cache_dir),
            delivery=delivery,
            watch=watch,
            rehearse=partial(rehearse, settings=settings, function=executed.function),
        )
        is_adaptive = prepared.space.search.is_adaptive
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
    if prepared.price is None:  # a selection is charged as a whole before anything starts
        ledger = Ledger(settings.home / FILE)
        priced = price(prepared.plan.to_run, settings, ledger=ledger)
        require_total(priced, ledger, budget_total=budget_total)


def run_settings(
    prepared: Prepared,
    waiting: Sequence[PlannedTrial],
    settings: Settings,
    *,
    address: str | None,
    function: str,
) -> RunSettings:
    """The settings for executing the trials of a plan, of which those `waiting` are still to run.

    Raises: InvalidInput as `require_executor`, and where the workers of a waiting trial do
    not fit on this machine.
    """
    space = prepared.space
    executed = RunSettings(
        executor=space.resources.executor,
        address=address,
        scheduler=space.search.scheduler,
        metric=space.metric,
        grace_epochs=space.search.grace_epochs,
        max_epochs=max((trial.epochs for trial in prepared.plan.to_run), default=1),
        function=function,
        sealed=space.search.is_private_selection,
        data_dir=settings.data_dir.absolute(),
        cache_dir=settings.cache_dir.absolute(),
    )
    require_executor(executed)
    # A cluster is known once Ray is connected to it.
    machine = this_machine(space.resources) if address is None else None
    share = share_of(space.resources, machine, workers=_workers(prepared, waiting))
    return replace(executed, **vars(share))


def _workers(prepared: Prepared, waiting: Sequence[PlannedTrial]) -> set[int]:
    """The numbers of workers of the waiting trials, those that a search chooses included."""
    chosen = {prepared.plan.workers} if prepared.plan.to_choose else set()
    return chosen | {trial.config.training.num_workers for trial in waiting}


def require_executor(executed: RunSettings) -> None:
    """Check the executor before anything is started.

    Raises: InvalidInput for a scheduler or an address with executor local, whose trials run one
    after another in this process; where nothing answers at the cluster's address; where a local
    cluster would accept calls without a token.
    """
    if executed.executor == "local":
        if executed.scheduler != "none":
            raise InvalidInput(
                f"expected scheduler none with executor local, got scheduler={executed.scheduler!r}"
            )
        if executed.address is not None:
            raise InvalidInput(
                "expected no address with executor local, whose trials run in this process, got"
                f" address={executed.address!r}"
            )
    elif executed.address is not None:
        _require_answer(executed.address)
    else:
        ray_session.require_token()


def _require_answer(address: str) -> None:
    """Check that a cluster listens at the address, because Ray itself would wait for minutes.

    Raises: InvalidInput where it does not, or the address has another form.
    """
    if address == "auto":  # Ray looks for it
        address = os.environ.get("RAY_ADDRESS") or address
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    if not host or "/" in host or not port.isdigit():
        raise InvalidInput(
            "expected address to be HOST:PORT or ray://HOST:PORT of a running Ray cluster, or auto"
            f" (RAY_ADDRESS, else a Ray of this machine), got {address!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        raise InvalidInput(
            f"expected address to be that of a running Ray cluster, got {address!r}:"
            f" nothing answers there ({words_of(error)})"
        ) from None


def rehearse(config: TrialConfig, settings: Settings, *, function: str = TRIAL_FUNCTION) -> None:
    """A dry run of the trial (see `trainables.rehearsal`), before anything is charged for it.
    Nothing is charged for an engine without privacy.

    Raises: InvalidInput where it fails.
    """
    if function != TRIAL_FUNCTION or catalogue.kind_of("engines", config.engine) != "private":
        return
    from trainables.rehearsal import rehearse as dry_run  # which imports torch

    dry_run(config, None if config.generates else open_data(config.data, settings).schema)


def require_room(
    prepared: Prepared,
    waiting: Sequence[PlannedTrial],
    settings: Settings,
    executed: RunSettings,
) -> RunSettings:
    """Check an existing cluster once Ray is connected to it, and settle what a worker gets there.

    Raises: InvalidInput where the workers of a trial do not fit, or where a node does not see the
    same folders as this process.
    """
    workers = _workers(prepared, waiting)
    share = share_of(prepared.space.resources, ray_session.cluster_size(), workers=workers)
    require_shared((settings.home, settings.cache_dir), reads=settings.data_dir)
    return replace(executed, **vars(share))


def require_shared(writes: Sequence[Path], *, reads: Path, timeout: float = 120.0) -> None:
    """Check that every node of the cluster sees the same folders as this process. In each of
    `writes` a mark is made and looked for; of `reads`, which may be read only, the names in it.

    Raises: InvalidInput naming the first folder and node where it does not, or a node that has not
    answered after `timeout` seconds.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    marks = [folder / f".shared-{uuid.uuid4().hex}" for folder in writes]
    try:
        for mark in marks:
            mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.touch()
        # Names in each; the data may be inside another.
        expected = {reads: _names(reads), **{mark.parent: [mark.name] for mark in marks}}
        answers = {}
        for node in ray.nodes():
            if node["Alive"]:
                # By its id: several nodes may have one address.
                here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                asked = ray.remote(_unseen).options(num_cpus=0, scheduling_strategy=here)
                name = f"node {node['NodeID'][:8]} ({node['NodeManagerAddress']})"
                answers[asked.remote(expected)] = name
        _, silent = ray.wait(list(answers), num_returns=len(answers), timeout=timeout)
        if silent:
            raise InvalidInput(
                f"expected every node of the cluster to answer within {timeout:g} seconds:"
                f" {answers[silent[0]]} did not"
            )
        for answer, name in answers.items():
            try:
                unseen = ray.get(answer)
            except ray.exceptions.RayError as error:
                raise SweepError(f"{name} could not be queried ({type(error).__name__})") from None
            if unseen is not None:
                raise InvalidInput(
                    f"expected {unseen} to be on storage that every node shares:"
                    f" {name} sees other content"
                )
    finally:
        for mark in marks:
            mark.unlink(missing_ok=True)


def _unseen(expected: dict[Path, list[str]]) -> Path | None:
    """The first folder that lacks one of these names; runs on a node of the cluster."""
    lacking = (path for path, names in expected.items() if not set(names) <= set(_names(path)))
    return next(lacking, None)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []

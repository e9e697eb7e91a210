"""Runs or resumes a planned sweep, and connects the executors with disk, ledger and
MLflow.

A check before the sweep is created has written nothing, so that the sweep's name stays
free.
"""

import math
import os
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from sweep import interrupts, status
from sweep.planning.accounting import Accounting
from sweep.planning.extension import Extension
from sweep.planning.plan import require_trials
from sweep.planning.prepare import Prepared, prepare_space
from sweep.planning.pricing import (
    fixed_filter,
    price,
    require_total,
    with_certified_noise,
)
from sweep.planning.resources import share_of, this_machine
from sweep.results import leakage
from sweep.results.tables.progress import Progress
from sweep.runtime import ray_session, selection
from sweep.runtime.driver import Driver, Watch
from sweep.runtime.events import TRIAL_FUNCTION, Interrupted, RayFailed, RunSettings
from sweep.runtime.jobs import ChosenJobs
from sweep.runtime.ray_metrics import record_metrics
from sweep.search.source import START
from sweep.settings import Settings
from sweep.spending.gate import open_gate
from sweep.spending.paid import require_paid, require_vault, require_whole_ledger
from sweep.store import manifest
from sweep.store import sweeps as store
from sweep.store.plans import Plan
from sweep.store.sweeps import SweepFolder, about, require_storage
from sweep.tracking.delivery import Delivery, StoreAway, is_tracked, open_store
from trainables import catalogue
from trainables.config.trial import TrialConfig
from trainables.data.corpus import Corpus
from trainables.errors import InvalidInput, SweepError, words_of

_DRY_RUN_SECONDS = 5.0  # of trials before the sweep is created
# among the facts of a sweep: the scheduler's, from which its rungs follow
_HORIZON = "max_epochs"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is left of a run of a sweep: its folder, with every result, and why results
    are missing in the tracking store, or None where they are there or none is used.
    """

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

    Raises: InvalidInput, with nothing written, for a plan without trials, data that
    cannot be read, too few resources, a name that exists, a data set whose total would
    exceed `budget_total`, a ledger that has lost a charge of any sweep, a tracking
    store that cannot be used; Interrupted.
    """
    space, plan, selected = prepared.space, prepared.plan, prepared.price
    account = Accounting(settings)
    require_trials(plan)
    plan = with_certified_noise(plan, account)
    store.require_free(settings.home, space.name)
    require_storage(settings)
    executed = run_settings(prepared, settings, address=address, function=function)
    # Dry runs that take longer are left for the start of each trial, but in a private
    # selection.
    begun = time.monotonic()
    for trial in plan.to_run:
        if selected is not None or time.monotonic() - begun < _DRY_RUN_SECONDS:
            dry_run(trial.config, account, function)
    ledger = account.ledger
    sweeps = store.sweeps(settings.home)
    require_whole_ledger(ledger, sweeps, budget_total=budget_total)
    # A selection is charged before anything starts.
    if budget_total is not None and selected is None:
        require_total(price(plan.to_run, account), ledger, budget_total=budget_total)
    if settings.tracking:
        open_store(settings)
    facts = {
        **about(command),
        "budget_total": budget_total,
        "tracking": settings.tracking,
    }
    if executed.scheduler != "none":
        facts[_HORIZON] = executed.max_epochs
    if prepared.known:
        facts[START] = [asdict(each) for each in prepared.known]
    if selected is not None:
        facts["selection"] = selected.to_dict()
        plan = Plan(name=space.name, trials=())  # its trials are drawn, and sealed
    if interrupts.is_stopping():  # whose exception a library has swallowed
        raise Interrupted("interrupted before it began")
    folder = store.create(settings.home, space, plan, about=facts)
    try:
        return _execute(folder, prepared, account, executed, watch)
    except InvalidInput:
        paid = selected and ledger.of_sweep(folder.ledger_name)
        if not (paid or folder.state().begun):  # it frees its name
            folder.delete()
        raise


def resume(
    folder: SweepFolder,
    settings: Settings,
    *,
    address: str | None = None,
    function: str = TRIAL_FUNCTION,
    watch: Watch = lambda trial_id, progress: None,
) -> Run:
    """Go on with a sweep to its end: unfinished and failed trials continue from their
    last checkpoints, and results that the tracking store lacks are sent. Parameters are
    as those of `start`; the limit on the spend is that of the start.

    Raises: InvalidInput if it is running, or as `start`.
    """
    folder.require_at_rest()
    account = Accounting(settings)
    ledger, sweeps = account.ledger, store.sweeps(settings.home)
    require_whole_ledger(ledger, sweeps, budget_total=folder.budget_total)
    if is_tracked(settings, folder):
        with suppress(StoreAway):  # a resumed sweep outlives it
            open_store(settings)
    prepared = Prepared(space=folder.space(), plan=folder.plan(), notes=())
    waiting = (record.status.is_resumed for record in folder.records(running=False))
    is_over = not (prepared.plan.to_choose or any(waiting))
    if prepared.space.search.is_private_selection:
        if folder.is_unsealed or require_vault(folder, ledger).is_over:
            problem = Delivery(settings, folder).close()
            return Run(folder=folder, tracking_problem=problem)
        prepared, is_over = prepare_space(prepared.space, settings=settings), False
    require_storage(settings)
    executed = run_settings(
        prepared, settings, address=address, function=function, is_over=is_over
    )
    horizon = folder.about().get(_HORIZON, executed.max_epochs)
    executed = executed.model_copy(update={"max_epochs": horizon})
    return _execute(folder, prepared, account, executed, watch)


def extend(
    folder: SweepFolder,
    extension: Extension,
    settings: Settings,
    *,
    address: str | None = None,
    function: str = TRIAL_FUNCTION,
    watch: Watch = lambda trial_id, progress: None,
) -> Run:
    """Add the points of an extension to its sweep, and go on with it to its end, as
    `resume` does. Trials of other sweeps are copied, with their files, first.

    Raises: InvalidInput, with nothing written, as `start`, and for a sweep that runs or
        was changed since the extension was planned.
    """
    account, prepared = Accounting(settings), extension.prepared
    require_storage(settings)
    executed = run_settings(prepared, settings, address=address, function=function)
    horizon = folder.about().get(_HORIZON, executed.max_epochs)
    executed = executed.model_copy(update={"max_epochs": horizon})
    begun = time.monotonic()
    for trial in extension.added:
        if time.monotonic() - begun < _DRY_RUN_SECONDS:
            dry_run(trial.config, account, function)
    if (limit := folder.budget_total) is not None:
        require_total(
            price(extension.added, account), account.ledger, budget_total=limit
        )
    if is_tracked(settings, folder):
        with suppress(StoreAway):
            open_store(settings)
    with store.storage_faults(folder), folder.hold_lock():
        if folder.plan() != extension.before:
            raise InvalidInput(
                f"sweep {folder.name} was changed while its extension was planned: run"
                " the same command again"
            )
        for trial_id, taken in extension.taken.items():
            place = folder.trial_folder(trial_id)
            shutil.rmtree(place, ignore_errors=True)  # of a crash: it has not begun
            manifest.copy(taken.folder, place)
            result = {**taken.result, "taken_from": taken.sweep}
            folder.release_trial(trial_id, epochs=taken.epochs, result=result)
        folder.replace_plan(prepared.space, prepared.plan, **extension.facts)
    return _execute(folder, prepared, account, executed, watch)


def _execute(
    folder: SweepFolder,
    prepared: Prepared,
    account: Accounting,
    executed: RunSettings,
    watch: Watch,
) -> Run:
    """Run unfinished trials and deliver the results.

    Raises: InvalidInput where another process runs the sweep; StorageFailed where the
    disk fails; SweepError where Ray does; Interrupted; as `selection.execute`.
    """
    further = f"`sweep resume {folder.name}` continues"
    try:
        with store.storage_faults(folder), folder.hold_lock():
            interrupts.now.is_requested = lambda: folder.is_stop_requested
            delivery = Delivery(account.settings, folder)
            try:
                if prepared.price is not None:
                    selection.execute(folder, prepared, account, executed, watch)
                else:
                    _run_trials(folder, account, executed, watch, delivery)
            finally:
                status.enter(status.DELIVERING)
                missing = delivery.close()
                interrupts.now.is_requested = lambda: False
    except Interrupted:
        raise Interrupted(f"interrupted; {further}") from None
    except RayFailed as failure:
        raise SweepError(f"{failure}; finished epochs are saved: {further}") from None
    return Run(folder=folder, tracking_problem=missing)


def _run_trials(
    folder: SweepFolder,
    account: Accounting,
    executed: RunSettings,
    watch: Watch,
    delivery: Delivery,
) -> None:
    watch, ledger = record_metrics(watch, folder), account.ledger
    priced = price(folder.plan().trials, account)
    require_paid(folder, ledger)
    fixed = fixed_filter(folder, ledger)
    gate = open_gate(folder, priced, ledger=ledger, total_filter=fixed)
    for record in folder.records(running=False):
        watch(record.plan.id, Progress.of(record))
    driver = Driver(
        gate,
        folder,
        delivery=delivery,
        watch=watch,
        dry_run=lambda config: dry_run(config, account, executed.function),
        notice=_say,
    )
    is_adaptive = folder.space().search.is_adaptive
    driver.run(executed, ChosenJobs(folder, account, gate) if is_adaptive else None)
    status.enter(status.COMPARING)
    leakage.write_panels(folder)


def _say(line: str) -> None:
    """A line on stderr, whose reader may have closed it."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def run_settings(
    prepared: Prepared,
    settings: Settings,
    *,
    address: str | None,
    function: str,
    is_over: bool = False,
) -> RunSettings:
    """The settings for executing the trials of a plan, of which an `is_over` one has
    none left.

    Raises: InvalidInput as `require_executor`, and where a trial does not fit on this
    machine.
    """
    space, plan = prepared.space, prepared.plan
    # A cluster is known once Ray is connected to it.
    machine = None if address is not None or is_over else this_machine(space.resources)
    share = share_of(space.resources, machine, plan)
    is_sealed, shared = space.search.is_private_selection, None
    if plan.to_choose:
        shared = plan.workers
    elif is_sealed:  # groups of several sizes would tell which trials were drawn
        shared = math.gcd(*(t.config.training.num_workers for t in plan.to_run)) or 1
    executed = RunSettings(
        **{**vars(share), "workers": space.resources.workers},
        shared_workers=shared,
        address=address,
        scheduler=space.search.scheduler,
        metric=space.metric,
        grace_epochs=space.search.grace_epochs,
        # A search has chosen no trial when it begins.
        max_epochs=max(
            (trial.epochs for trial in (*plan.to_run, *plan.probes)), default=1
        ),
        function=function,
        sealed=is_sealed,
        data_dir=settings.data_dir.absolute(),
        cache_dir=settings.cache_dir.absolute(),
    )
    require_executor(executed)
    return executed


def require_executor(executed: RunSettings) -> None:
    """Raises: InvalidInput for a scheduler or an address with executor local, whose
    trials run one after another in this process; where nothing answers at the cluster's
    address; where a local cluster would accept calls without a token.
    """
    if executed.executor == "local":
        if executed.scheduler != "none":
            raise InvalidInput(
                f"expected scheduler none with executor local, got"
                f" scheduler={executed.scheduler!r}"
            )
        if executed.address is not None:
            raise InvalidInput(
                "expected no address with executor local, whose trials run in this"
                f" process, got address={executed.address!r}"
            )
    elif executed.address is not None:
        _require_answer(executed.address)
    else:
        ray_session.require_token()


def _require_answer(address: str) -> None:
    """Raises: InvalidInput where no cluster listens at the address, or it has another
    form; Ray itself would wait for minutes.
    """
    if address == "auto":  # Ray looks for it
        address = os.environ.get("RAY_ADDRESS", "")
        if not address:
            return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except (OSError, OverflowError, ValueError) as error:
        raise InvalidInput(
            "expected address to be HOST:PORT or ray://HOST:PORT of a running Ray"
            " cluster, or auto (RAY_ADDRESS, else a Ray of this machine), got"
            f" {address!r}: nothing answers there ({words_of(error)})"
        ) from None


def dry_run(
    config: TrialConfig, account: Accounting, function: str = TRIAL_FUNCTION
) -> None:
    """A dry run of the trial (see `trainables.dry_run`), before anything is charged for
    it, as for a private engine alone.

    Raises: InvalidInput where it fails.
    """
    if (
        function != TRIAL_FUNCTION
        or catalogue.kind_of("engines", config.engine) != "private"
    ):
        return
    from trainables.dry_run import dry_run as dry_run  # which imports torch

    data = account.data_of(config)
    dry_run(config, data.schema if isinstance(data, Corpus) else None)

"""Checks of a sweep before it is created: its executor, its resources, its folders.

A refusal here has written nothing, so the name of the sweep stays free.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from search_spaces.space import SearchSpace
from sweep.planning.resources import (
    Machine,
    choose_slots,
    gpu_share,
    machine_cpus,
    machine_gpus,
    share_of,
)
from sweep.runtime import execute, ray_session
from sweep.runtime.events import RunSettings
from sweep.runtime.search_jobs import workers_of
from sweep.runtime.shared_folders import require_shared
from sweep.settings import Settings
from sweep.store.data_sets import open_data
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder
from trainables import catalogue, goals
from trainables.config import TrialConfig
from trainables.encoders.identity import ENCODER, require_files_of
from trainables.errors import InvalidData
from trainables.system import checkpoint

_PATIENCE = 5.0  # seconds of dry runs before a sweep begins


def prepare(
    space: SearchSpace,
    jobs: Sequence[PlannedTrial],
    settings: Settings,
    *,
    address: str | None,
    function: str,
    waiting: Sequence[PlannedTrial] | None = None,
) -> RunSettings:
    """The settings for executing the trials of a space. `waiting`: those of the `jobs` that are
    still to run; None: all.

    Raises: InvalidInput as `execute.require_executor`, and where the workers of a waiting trial do
    not fit on this machine.
    """
    executed = RunSettings(
        executor=space.resources.executor,
        # Now: Ray starts while another thread imports torch, and would wait for it.
        gpus=machine_gpus() if address is None else None,
        address=address,
        scheduler=space.search.scheduler,
        metric=goals.after_an_epoch(space.task),
        grace_epochs=space.search.grace_epochs,
        max_epochs=max((trial.epochs for trial in jobs), default=1),
        function=function,
        data_dir=settings.data_dir,
        cache_dir=settings.cache_dir,
    )
    execute.require_executor(executed)
    machine = None if address is None else Machine(cpus=0)
    executed = replace(executed, **vars(share_of(space.resources, machine)))
    if address is None and executed.executor != "local":
        machine, without_gpus = Machine(cpus=machine_cpus()), replace(executed, gpus_per_worker=0.0)
        for count in _process_counts(space, executed, jobs if waiting is None else waiting):
            choose_slots(count, without_gpus, machine)
    return executed


def rehearse(config: TrialConfig, *, settings: Settings) -> None:
    """A dry run of the trial (see `trainables.rehearsal`), before anything is charged for it.
    Nothing is charged for an engine without privacy.

    Raises: InvalidInput where it fails.
    """
    if catalogue.kind_of("engines", config.engine) != "private":
        return
    from trainables.rehearsal import rehearse as dry_run  # which imports torch

    dry_run(config, None if config.generates else open_data(config.data, settings).schema)


def rehearse_first(
    trials: Sequence[PlannedTrial], settings: Settings, *, all_of_them: bool
) -> None:
    """Dry runs of trials before the sweep is created. Unless `all_of_them`, those that would take
    longer than a few seconds are left for the start of each trial.

    Raises: InvalidInput where one fails.
    """
    started = time.monotonic()
    for trial in trials:
        if all_of_them or time.monotonic() - started < _PATIENCE:
            rehearse(trial.config, settings=settings)


def require_room(
    space: SearchSpace, trials: Sequence[PlannedTrial], settings: Settings, executed: RunSettings
) -> RunSettings:
    """Check a cluster once Ray runs, and settle by its GPUs what a worker gets by default.

    Raises: InvalidInput where the workers of a trial do not fit, or where a node of an existing
    cluster does not see the same folders as this process.
    """
    if executed.executor == "local":
        return executed
    size = ray_session.cluster_size()
    share = gpu_share(space.resources.gpus_per_worker, size)
    executed = replace(executed, gpus_per_worker=share)
    for count in sorted(_process_counts(space, executed, trials)):
        choose_slots(count, executed, size)
    if executed.address is not None:
        writes = (settings.home, settings.cache_dir)
        require_shared(writes=writes, reads=(settings.data_dir,))
    return executed


def with_their_encoders(folder: SweepFolder, stopped: Sequence[PlannedTrial]) -> list[PlannedTrial]:
    """The trials that a resume continues, `stopped` included, each with the encoder that it began
    with. A pending trial whose checkpoint is damaged fails at its start, and the others continue.

    Raises: InvalidInput for another encoder; InvalidData for a checkpoint of `stopped` that cannot
    be read.
    """
    waiting = [*(r.plan for r in folder.records() if r.status.is_resumed), *stopped]
    for trial in waiting:
        place = folder.trial_folder(trial.id)
        try:
            digest = str(checkpoint.state_of(place).get(ENCODER, ""))
        except InvalidData:
            if trial in stopped:
                raise
            continue
        if digest:
            model = trial.config.model.model_dump(mode="json")
            require_files_of(model, digest, where=place / "checkpoint")
    return waiting


def _process_counts(
    space: SearchSpace, executed: RunSettings, trials: Sequence[PlannedTrial]
) -> set[int]:
    """Processes of the trials, those of an adaptive search included."""
    chosen = {workers_of(space)} if space.search.is_adaptive else set()
    return chosen | {executed.processes(trial.config.training.num_workers) for trial in trials}

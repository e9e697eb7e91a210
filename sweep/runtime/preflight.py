"""Checks of a sweep before it is created: its executor, its resources, its folders.

A refusal here has written nothing, so the name of the sweep stays free.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sweep.planning.prepare import Prepared
from sweep.planning.resources import share_of, this_machine
from sweep.runtime import ray_session
from sweep.runtime.events import RunSettings
from sweep.settings import Settings
from sweep.store.data_sets import open_data
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder
from trainables import catalogue
from trainables.config import TrialConfig
from trainables.encoders.identity import ENCODER, require_files_of
from trainables.errors import InvalidData, InvalidInput, SweepError, words_of
from trainables.system import checkpoint

_PATIENCE = 5.0  # seconds of dry runs before a sweep begins


def prepare(
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


def rehearse(config: TrialConfig, settings: Settings) -> None:
    """A dry run of the trial (see `trainables.rehearsal`), before anything is charged for it.
    Nothing is charged for an engine without privacy.

    Raises: InvalidInput where it fails.
    """
    if catalogue.kind_of("engines", config.engine) != "private":
        return
    from trainables.rehearsal import rehearse as dry_run  # which imports torch

    dry_run(config, None if config.generates else open_data(config.data, settings).schema)


def rehearse_first(prepared: Prepared, rehearse: Callable[[TrialConfig], None]) -> None:
    """Dry runs of trials before the sweep is created. Those that would take longer than a few
    seconds are left for the start of each trial, except in a private selection.

    Raises: InvalidInput where one fails.
    """
    started = time.monotonic()
    for trial in prepared.plan.to_run:
        if prepared.price is not None or time.monotonic() - started < _PATIENCE:
            rehearse(trial.config)


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


def require_shared(writes: Sequence[Path], *, reads: Path, timeout: float = 120.0) -> None:
    """Check that every node of the cluster sees the same folders as this process. In each of
    `writes` a mark is made and looked for; of `reads`, which may be read only, the names in it are
    compared, and one that does not exist here is not needed.

    Raises: InvalidInput naming the first folder and node where it does not, or a node that has not
    answered after `timeout` seconds.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    marks = [folder / f".shared-{uuid.uuid4().hex}" for folder in writes]
    # What is looked for, and the names in it where it is a folder.
    expected: dict[Path, list[str] | None] = dict.fromkeys(marks)
    try:
        for mark in marks:
            mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.touch()
        if reads.is_dir():  # the others may be inside
            expected[reads] = _names(reads)
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


def _unseen(expected: dict[Path, list[str] | None]) -> Path | None:
    """The first folder that has other content; runs on a node of the cluster."""
    for path, names in expected.items():
        if names is None and not path.exists():
            return path.parent
        if names is not None and _names(path) != names:
            return path
    return None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []

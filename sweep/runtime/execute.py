"""`run_trials`: the entry point of every executor."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from sweep.planning.resources import Machine, choose_slots, machine_cpus
from sweep.runtime import ray_session
from sweep.runtime.events import Events, JobSource, RunSettings, TrialJob
from trainables.documents import words_of
from trainables.errors import InvalidInput


def require_executor(settings: RunSettings) -> None:
    """Check the executor before anything is started.

    Raises: InvalidInput for a scheduler or an address with executor local, whose trials run one
    after another in this process; where nothing answers at the cluster's address; where a local
    cluster would accept calls without a token.
    """
    if settings.executor == "local":
        if settings.scheduler != "none":
            raise InvalidInput(
                f"expected scheduler none with executor local, got scheduler={settings.scheduler!r}"
            )
        if settings.address is not None:
            raise InvalidInput(
                "expected no address with executor local, whose trials run in this process, got"
                f" address={settings.address!r}"
            )
    elif settings.address is not None:
        require_answer(settings.address)
    else:
        ray_session.require_token()


def require_answer(address: str, *, timeout: float = 5.0) -> None:
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
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout).close()
    except (OSError, OverflowError) as error:
        raise InvalidInput(
            f"expected address to be that of a running Ray cluster, got {address!r}:"
            f" nothing answers there ({words_of(error)})"
        ) from None


def run_trials(
    jobs: Sequence[TrialJob],
    *,
    events: Events,
    settings: RunSettings,
    stop_requested: Callable[[], bool] = lambda: False,
    source: JobSource | None = None,
) -> None:
    """Run every job to its end, and the jobs that `source` chooses, with `events` called in this
    process.

    A failed trial is an event, not an exception. After an interruption or a crash, call this again
    with the unfinished jobs; trials resume from their checkpoints.

    Raises: InvalidInput, before anything starts, where two jobs share an id or a trial's workers
    do not fit; sweep.events.Interrupted on SIGINT, SIGTERM or once `stop_requested` returns True;
    SweepError where Ray fails; any exception of `events`. No worker is then left running.
    """
    counts = Counter(job.trial_id for job in jobs)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise InvalidInput(f"expected distinct trial ids, got {twice[0]!r} twice")
    if not jobs and source is None:
        return
    require_executor(settings)
    if settings.executor == "local":
        from sweep.runtime.local import run_local

        run_local(
            jobs, events=events, settings=settings, stop_requested=stop_requested, source=source
        )
        return
    if settings.address is None:
        # The GPUs of a local cluster are counted by Ray, once it is up.
        chosen = set() if source is None else {source.workers}
        for workers in {job.workers for job in jobs} | chosen:
            without_gpus = replace(settings, gpus_per_worker=0.0)
            choose_slots(workers, without_gpus, Machine(cpus=settings.cpus or machine_cpus()))
    from sweep.runtime.tune import run_on_ray

    run_on_ray(jobs, events=events, settings=settings, stop_requested=stop_requested, source=source)

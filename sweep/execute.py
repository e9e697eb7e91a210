"""`run_trials`: the one door to every executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sweep.events import Events, JobSource, RunSettings, TrialJob
from sweep.resources import choose_slots, machine_cpus
from trainables.errors import InvalidInput


def run_trials(
    jobs: Sequence[TrialJob],
    *,
    events: Events,
    settings: RunSettings,
    stop_asked: Callable[[], bool] = lambda: False,
    source: JobSource | None = None,
) -> None:
    """Run every job to its end, telling `events` in this process what happens; then, and beside
    them where there is room, what `source` chooses.

    A trial that fails is an event, not an exception. To go on after an interruption or a crash,
    call this again with the jobs that had not finished: trials resume from their checkpoints.

    Raises: InvalidInput, before anything starts, where two jobs share an id or a trial's workers
    do not fit; sweep.events.Interrupted on SIGINT, on SIGTERM or once `stop_asked` says so;
    SweepError where Ray broke down; whatever `events` raises. No worker is left running then.
    """
    ids = [job.trial_id for job in jobs]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise InvalidInput(f"expected distinct trial ids, got {twice[0]!r} twice")
    if not jobs and source is None:
        return
    if settings.executor == "local":
        from sweep.local import run_local

        run_local(jobs, events=events, settings=settings, stop_asked=stop_asked, source=source)
        return
    if settings.address is None:
        # The GPUs of a local cluster are counted by Ray, once it is up.
        chosen = set() if source is None else {source.workers}
        for workers in {job.workers for job in jobs} | chosen:
            choose_slots(
                workers=workers,
                cpus_per_worker=settings.cpus_per_worker,
                gpus_per_worker=0.0,
                slots=settings.slots,
                cpus=settings.cpus or machine_cpus(),
                gpus=0.0,
            )
    from sweep.ray_gang import run_on_ray

    run_on_ray(jobs, events=events, settings=settings, stop_asked=stop_asked, source=source)

"""Runs trials on Ray: Ray Tune explores, worker groups of workers train, this process
decides and writes. A trial that Tune never starts is never trained.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.search import Searcher

from sweep import interrupts
from sweep.planning.resources import (
    Machine,
    choose_slots,
    fit_into_memory,
    gpu_share,
    workers_of,
)
from sweep.runtime import ray_session
from sweep.runtime.early_stopping import scheduler
from sweep.runtime.events import (
    MAX_FAILURES,
    EventStream,
    Interrupted,
    PastEpoch,
    RayFailed,
    RunSettings,
    TrialJob,
)
from sweep.runtime.jobs import ChosenJobs
from sweep.runtime.pool import STOPPED_BY_TUNE, Pool, State
from sweep.runtime.tune_trial import SLOT, TRIAL, lease, name_of, shown_name
from sweep.runtime.worker_group import worker_group
from sweep.runtime.worker_loop import one_line
from trainables.errors import SweepError
from trainables.io.files import make_folder

_FOLDER = ".ray"  # in the sweep's: files of Tune and Train
_POLL_SECONDS = 0.5
_FAREWELL_SECONDS = 15.0


def questions(
    jobs: Sequence[TrialJob],
    settings: RunSettings,
    source: ChosenJobs | None,
    past: Sequence[PastEpoch],
) -> EventStream:
    """Run every job to its end, one at least, and the jobs that `source` chooses, in a
    thread of Tune, on the Ray of this process. The scheduler has seen the epochs of the
    `past`.

    Raises: InvalidInput where the workers do not fit on the cluster, or its nodes do
    not share the folders; Interrupted where the process is to stop (`interrupts`);
    RayFailed; SweepError where Tune fails, or no group of workers can be kept alive;
    any exception of `source`. In all these cases the workers have ended when this
    returns, and unfinished jobs can be run again.
    """
    files = jobs[0].folder.parents[1].resolve() / _FOLDER
    note = files / "session.json"
    with suppress(OSError, ValueError):  # of a killed process
        ray_session.remove(json.loads(note.read_text()))
    ray_session.remove([files])
    files.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps([str(folder) for folder in ray_session.files]))
    # Prometheus follows it, whatever the folder of this Ray is called.
    metrics = settings.cache_dir / "prometheus" / f"{files.parent.name}.json"
    try:
        for folder in ray_session.files:
            make_folder(metrics.parent)
            metrics.unlink(missing_ok=True)
            metrics.symlink_to(folder / "prom_metrics_service_discovery.json")
        if settings.address is not None:
            ray_session.require_shared(
                (files, settings.cache_dir), reads=settings.data_dir
            )
        size, seen = ray_session.cluster_size(), list(past)
        gpus = gpu_share(settings.gpus_per_worker, size)
        settings = settings.model_copy(update={"gpus_per_worker": gpus})
        explorations = [
            (each, settings.model_copy(update={"workers": workers}))
            for workers, each in _by_workers(jobs, settings, size).items()
        ]
        for _, shape in explorations:
            choose_slots(shape, size)  # before the first one begins
        for each, shape in explorations:
            exploration = _Exploration(each, source, shape, size, files, seen)
            with closing(exploration.questions()) as asked:
                for event, reply in asked:
                    if (report := event.report) is not None:  # for later schedulers
                        past_epoch = PastEpoch(
                            trial_id=event.trial_id,
                            epochs_done=report.epochs_done,
                            metrics=report.metrics,
                        )
                        seen.append(past_epoch)
                    yield event, reply
    finally:
        metrics.unlink(missing_ok=True)
        ray_session.remove([files])


def _by_workers(
    jobs: Sequence[TrialJob], settings: RunSettings, size: Machine
) -> dict[int, list[TrialJob]]:
    """The jobs by the number of their workers, the largest first: a worker group keeps
    its size.
    """
    found: dict[int, list[TrialJob]] = {}
    for job in jobs:
        logical = settings.shared_workers or int(job.config.training.num_workers)
        found.setdefault(workers_of(logical, settings, size), []).append(job)
    return dict(sorted(found.items(), reverse=True))


class _Exploration:
    """A pool of the jobs, its worker groups of one size, and a Tuner. `files` takes
    what Ray writes.
    """

    def __init__(
        self,
        jobs: list[TrialJob],
        source: ChosenJobs | None,
        settings: RunSettings,
        size: Machine,
        files: Path,
        past: Sequence[PastEpoch],
    ) -> None:
        self._slots = choose_slots(settings, size)
        self._workers = settings.workers or 1
        if not settings.sealed:
            most = len(jobs) + (source.num_left if source is not None else 0)
            self._slots = min(self._slots, most)
        # A person's number of slots stands.
        self._memory = size.memory_bytes if settings.slots is None else math.inf
        self._jobs = jobs
        self._source = source
        self._settings = settings
        self._past = past
        self._files = files
        # In Ray's dashboard.
        self._name = f"{files.parent.name}-pool-{uuid.uuid4().hex[:12]}"
        named = {"name": self._name, "namespace": ray_session.NAMESPACE}
        pool = ray.remote(Pool).options(num_cpus=0, max_concurrency=10_000, **named)
        self._pool = pool.remote(jobs, sealed=settings.sealed)
        # One decision at a time: a verdict or a suggestion.
        self._deciding = threading.Lock()
        self._ended = threading.Event()
        self._error: BaseException | None = None  # of the thread of Tune
        self._progress = 0  # of any trial
        self._gang_error = "the reason is unknown"
        self._gangs: list[threading.Thread] = []  # of the first slots
        self._tuner = ray_session.caller(self._explore)

    def questions(self) -> EventStream:
        """The questions of the workers, until Tune has ended and every trial that it
        began.
        """
        peak = 0  # bytes of the largest worker
        leaving = [self._tuner]
        try:
            self._fill_memory(peak)
            self._tuner.start()
            asked = self._pool.questions.remote()
            while self._is_going_on():
                if ray.wait([asked], timeout=_POLL_SECONDS)[0]:
                    for number, event in ray.get(asked):
                        with self._deciding:
                            yield event, partial(self._pool.answer.remote, number)
                        self._progress += event.kind != "started"
                        if event.memory > peak:
                            peak = event.memory
                            self._fill_memory(peak)
                    asked = self._pool.questions.remote()
                if interrupts.is_stopping():
                    raise Interrupted(
                        "the sweep was interrupted; its workers have stopped"
                    )
            leaving += self._gangs
        except ray.exceptions.RayError as error:
            lost = ray_session.dead_daemon()
            if lost is None and isinstance(error, ray.exceptions.RayActorError):
                lost = "process that hands out the trials"
            what = f"its {lost} died" if lost else one_line(error)
            raise RayFailed(f"Ray failed ({what})") from None
        finally:
            self._ended.set()
            if ray_session.dead_daemon() is None:
                is_ending = interrupts.now.number  # this process, and its Ray
                with suppress(ray.exceptions.RayError):
                    if not is_ending:
                        ray.get(self._pool.limit_slots.remote(0))
                        _wait_for(leaving)
                    ray.kill(self._pool)
                # worker groups in the middle of an epoch end with their pool
                if not is_ending:
                    _wait_for(self._gangs)

    def _is_going_on(self) -> bool:
        """Raises: SweepError where Tune, Ray or every worker group has failed."""
        is_over = not self._tuner.is_alive()
        if (lost := ray_session.dead_daemon()) is not None:
            raise RayFailed(f"Ray failed (its {lost} died)")
        if self._error is not None:
            raise self._error
        is_served = any(thread.is_alive() for thread in self._gangs)
        if is_served and not is_over:
            return True
        asked = self._pool.unfinished_trials.remote()
        if not ray.wait([asked], timeout=_POLL_SECONDS)[0]:
            return True  # it is asked again, unless Ray is dead
        unfinished: dict[str, State] = ray.get(asked)
        if unfinished and not is_served:
            raise SweepError(f"workers failed repeatedly: {self._gang_error}")
        if is_over and "ready" in unfinished.values():
            raise SweepError("Ray Tune ended before every trial had begun")
        return bool(unfinished) or not is_over

    def _fill_memory(self, peak: int) -> None:
        """Start the worker groups that the memory permits, and end others: a worker
        that is killed for memory repeats an epoch, which is charged again.
        """
        number = fit_into_memory(
            self._slots, workers=self._workers, peak=peak, memory=self._memory
        )
        self._pool.limit_slots.remote(number)
        for slot in range(len(self._gangs), number):
            self._gangs.append(ray_session.caller(self._keep_gang, slot))
            self._gangs[-1].start()

    def _keep_gang(self, slot: int) -> None:
        """Run the trainer of a slot to its end, again if it failed after a trial had
        progressed.
        """
        try:
            while True:
                before = self._progress
                try:
                    worker_group(
                        self._name,
                        slot=slot,
                        settings=self._settings,
                        folder=self._files,
                    ).fit()
                    return
                except ray.train.TrainingFailedError:
                    if self._progress == before:
                        raise
        except Exception as error:  # noqa: BLE001  the main thread reports it
            self._gang_error = one_line(error)

    def _explore(self) -> None:
        """Let Ray Tune explore the jobs, or those of the source, until all are over."""
        # Errors are reported by the pool's events, or by those of this thread.
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        settings, searcher = self._settings, None
        if self._source is not None:
            space, searcher = {}, _Suggestions(self._suggest)
        elif settings.sealed:
            # Tune writes names and numbers of its trials: here those of the slots.
            space = {SLOT: tune.grid_search(list(range(self._slots)))}
        else:
            space = space_of(self._jobs)
        trial = tune.with_parameters(lease, pool=self._pool)
        try:
            tune.Tuner(
                # It represents its workers, so it must never keep the CPUs that they
                # wait for.
                tune.with_resources(trial, {"memory": 1}),
                param_space=space,
                tune_config=tune.TuneConfig(
                    search_alg=searcher,
                    num_samples=1 if searcher is None else -1,
                    scheduler=scheduler(settings, self._past),
                    reuse_actors=True,
                    max_concurrent_trials=self._slots,
                    trial_name_creator=lambda trial: shown_name(trial.config),
                    trial_dirname_creator=lambda trial: name_of(trial.config),
                ),
                run_config=tune.RunConfig(
                    name=f"tune-{self._workers}",
                    storage_path=str(self._files),
                    failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
                    stop=_Stop(self._ended),
                    callbacks=[_Notice(self._pool)],
                    verbose=0,
                ),
            ).fit()
        except Exception as error:  # noqa: BLE001  the main thread reports it
            failure = SweepError(f"Ray Tune failed: {one_line(error)}")
            self._error = self._error or failure

    def _suggest(self) -> TrialJob | None:
        """The next trial, for Tune; None: there is no other."""
        assert self._source is not None
        try:
            with self._deciding:
                job = self._jobs.pop(0) if self._jobs else self._source.next()
            if job is not None:
                ray.get(self._pool.add.remote(job))
            return job
        except BaseException as error:  # noqa: BLE001  the main thread raises it
            self._error = error
            return None


def _wait_for(threads: Sequence[threading.Thread]) -> None:
    """Wait for threads that still use Ray."""
    deadline = time.monotonic() + _FAREWELL_SECONDS
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))


def space_of(jobs: Sequence[TrialJob]) -> dict[str, Any]:
    """The points of the jobs as Tune shows them, each with its trial: a grid search of
    each axis where they are its whole product, else a grid search of the trials with
    the values of each.
    """
    axes = list(dict.fromkeys(axis for job in jobs for axis in job.point))
    points = {
        job.trial_id: {axis: job.point.get(axis) for axis in axes} for job in jobs
    }
    names = {_text(point): name for name, point in points.items()}
    values = {
        axis: list({_text(p[axis]): p[axis] for p in points.values()}.values())
        for axis in axes
    }
    if axes and len(jobs) == len(names) == math.prod(map(len, values.values())):
        space = {axis: tune.grid_search(each) for axis, each in values.items()}
        space[TRIAL] = tune.sample_from(
            lambda spec: names[_text({axis: spec["config"][axis] for axis in axes})]
        )
        return space
    space = {TRIAL: tune.grid_search(list(points))}
    for axis in axes:
        space[axis] = tune.sample_from(
            lambda spec, axis=axis: points[spec["config"][TRIAL]][axis]
        )
    return space


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


class _Notice(TrialProgressCallback):  # type: ignore[misc]  # ray is untyped here
    """Notifies the pool that a Tune trial ended, whose actor may be dead already. It
    replaces the callback of Tune that prints the trials.
    """

    def __init__(self, pool: Any) -> None:
        super().__init__()
        self._pool = pool

    def on_trial_result(self, *args: Any, **info: Any) -> None:
        """Print nothing: the driver shows a table."""

    def on_trial_complete(
        self, iteration: int, trials: list[Any], trial: Any, **_: Any
    ) -> None:
        """Stop the workers of a trial that the scheduler stopped."""
        self._pool.leave.remote(name_of(trial.config), STOPPED_BY_TUNE)

    def on_trial_error(
        self, iteration: int, trials: list[Any], trial: Any, **_: Any
    ) -> None:
        """Stop the workers of a trial whose actor died too often."""
        self._pool.leave.remote(name_of(trial.config), "its trial of Ray Tune failed")


class _OfThisProcess:
    """Never copied; what Tune keeps of it on disk is not read."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _OfThisProcess:
        return self

    def __reduce__(self) -> Any:
        return object, ()


class _Stop(_OfThisProcess, tune.Stopper):  # type: ignore[misc]
    """Ends Tune once an event is set."""

    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether everything is to end."""
        return self._ended.is_set()


class _Suggestions(_OfThisProcess, Searcher):  # type: ignore[misc]
    """A search of this project for Tune, which reads results from the sweep's folder
    alone.
    """

    def __init__(self, suggest: Callable[[], TrialJob | None]) -> None:
        super().__init__()
        self._suggest = suggest

    def suggest(self, trial_id: str) -> Any:
        """The config of a Tune trial."""
        job = self._suggest()
        return Searcher.FINISHED if job is None else {TRIAL: job.trial_id, **job.point}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Ignore the result."""

    def save(self, checkpoint_path: str) -> None:
        """Write an empty file."""
        Path(checkpoint_path).touch()

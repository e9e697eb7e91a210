"""Runs trials on Ray: Ray Tune explores, gangs of workers train, this process decides and writes.

A Tune trial stands for a trial of the sweep. It leases a gang of workers, passes each epoch's
report to Tune's scheduler, and permits the next epoch when `ray.tune.report` has returned; the
driver then charges it. A trial that Tune never starts is never trained.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, MedianStoppingRule, TrialScheduler
from ray.tune.search import Searcher

from sweep import interrupts
from sweep.planning.resources import choose_slots, fit_into_memory
from sweep.runtime import ray_session
from sweep.runtime.events import Events, Interrupted, JobSource, RunSettings, TrialEvent, TrialJob
from sweep.runtime.gang import gang
from sweep.runtime.pool import STOPPED_BY_TUNE, News, Pool, State
from sweep.runtime.worker_loop import one_line
from trainables.errors import SweepError

TIME_ATTR = "epoch"  # never training_iteration: that counts again from 1 after a resume
_TRIAL = "trial"  # the key of a Tune trial's config that names it
_FOLDER = ".ray"  # in the sweep's: files of Tune and Train
_POLL_SECONDS = 5.0
_DRIVER_POLL_SECONDS = 0.5
_FAREWELL_SECONDS = 15.0
_PATIENCE_SECONDS = 2.0


def run_on_ray(
    jobs: Sequence[TrialJob],
    *,
    events: Events,
    settings: RunSettings,
    stop_requested: Callable[[], bool] = lambda: False,
    source: JobSource | None = None,
) -> None:
    """Run every job to its end, and the jobs that `source` chooses; `events` is called in this
    thread and `source` in that of Tune, never both at once.

    Raises: InvalidInput where the workers do not fit on the cluster; Interrupted on SIGINT, on
    SIGTERM or once `stop_requested` returns True; SweepError where Tune fails, or no group of
    workers can be kept alive; any exception of `events` and `source`. In all these cases the
    workers have ended when this returns, and unfinished jobs can be run again.
    """
    # The round of the source's number of workers is last: it can use results of the others.
    last = source.workers if source is not None else 0
    jobs = sorted(jobs, key=lambda job: (job.workers == last, job.workers))
    with ray_session.session(settings), interrupts.postpone() as interrupted:
        ray_session.finish_acts()  # of an earlier call, whose places these jobs need
        # What a killed process has left.
        shutil.rmtree(_place(jobs, source) / _FOLDER, ignore_errors=True)
        size = ray_session.cluster_size()
        by_workers = itertools.groupby(jobs, key=lambda job: job.workers)
        groups = {workers: list(group) for workers, group in by_workers}
        if source is not None:
            groups.setdefault(last, [])
        slots = {workers: choose_slots(workers, settings, size) for workers in groups}
        for workers, group in groups.items():
            own = source if workers == last else None
            if not group and own is not None and not own.num_left:
                continue
            exploration = _Exploration(
                group,
                workers,
                slots=slots[workers],
                memory=size.memory_bytes,
                settings=settings,
                source=own,
            )
            exploration.run(events, lambda: interrupted() or stop_requested())
            if workers == [*groups][-1]:
                ray_session.before_end(exploration.clear_up)
            else:
                exploration.clear_up()  # the next round needs its places


class _Exploration:
    """All jobs that have the same number of workers: a pool, its gangs, and a Tuner."""

    def __init__(
        self,
        jobs: list[TrialJob],
        workers: int,
        *,
        slots: int,
        memory: float,
        settings: RunSettings,
        source: JobSource | None,
    ) -> None:
        self._jobs = jobs
        self._workers = workers
        self._source = source
        most = len(jobs) + (source.num_left if source is not None else 0)
        self._slots = slots if settings.sealed else min(slots, most)
        self._memory = memory if settings.slots is None else math.inf  # a person's number stands
        self._peak = 0  # bytes of the largest worker
        self._settings = settings
        place = _place(jobs, source)
        self._folder = place.resolve() / _FOLDER / uuid.uuid4().hex[:8]
        self._sweep = place.name  # name of its actors in Ray's dashboard
        self._name = f"{place.name}-pool-{uuid.uuid4().hex[:12]}"
        self._pool = (
            ray.remote(Pool)
            .options(
                name=self._name,
                namespace=ray_session.NAMESPACE,
                num_cpus=0,
                max_concurrency=10_000,
            )
            .remote(jobs, max_failures=settings.max_failures)
        )
        self._deciding = threading.Lock()  # one decision at a time: a verdict or a suggestion
        self._ended = threading.Event()
        self._error: BaseException | None = None  # of the thread of Tune
        self._gang_error = "the reason is unknown"
        self._allowed = 0  # slots at present
        self._gangs: list[threading.Thread] = []  # of the first slots
        self._tuner = ray_session.caller(self._tune)

    def run(self, events: Events, stop_requested: Callable[[], bool]) -> None:
        """Answer every question of the pool until Tune has explored all; call `clear_up` then."""
        self._folder.mkdir(parents=True)
        try:
            self._fill_memory()
            self._tuner.start()
            for number, event in self._questions(stop_requested):
                with self._deciding:
                    verdict = events(event)
                self._pool.answer.remote(number, verdict)
                if event.memory > self._peak:
                    self._peak = event.memory
                    self._fill_memory()
        except BaseException as error:
            self._ended.set()
            try:
                self._break_off(error)
            finally:
                self._remove()
            raise

    def _questions(self, stop_requested: Callable[[], bool]) -> Iterator[tuple[int, TrialEvent]]:
        """The questions of the workers, until Tune has ended and every trial that it began."""
        while True:
            is_over = not self._tuner.is_alive()
            yield from _get(self._pool.questions.remote(wait=_DRIVER_POLL_SECONDS))
            if stop_requested():
                raise Interrupted("the sweep was interrupted; its workers have stopped")
            _require_daemons(self._sweep)
            if self._error is not None:
                raise self._error
            is_served = any(thread.is_alive() for thread in self._gangs)
            if is_served and not is_over:
                continue
            unfinished: dict[str, State] = _get(self._pool.unfinished_trials.remote())
            if unfinished and not is_served:
                raise SweepError(f"workers failed repeatedly: {self._gang_error}")
            if is_over and not unfinished:
                return
            if "ready" in unfinished.values():
                raise SweepError("Ray Tune ended before every trial had begun")

    def clear_up(self) -> None:
        """Wait for the threads that still use Ray, and remove the actors of the round."""
        try:
            self._say_goodbye(*self._gangs, self._tuner)
        finally:
            self._remove()

    def _break_off(self, error: BaseException) -> None:
        """End the threads that would use a failed Ray.

        Raises: SweepError where Ray has failed.
        """
        if isinstance(error, _RayIsLost):
            return
        if isinstance(error, ray.exceptions.RayError):
            _require_daemons(self._sweep)
            # The Tune trials of a dead pool end without further action.
            self._say_goodbye(self._tuner)
            raise _broke_down(type(error).__name__, self._sweep) from None
        # Workers in the middle of an epoch end with their cluster. Tune must have ended before.
        if not interrupts.is_stopping():  # this process is about to end, and its Ray with it
            self._say_goodbye(self._tuner)

    def _remove(self) -> None:
        if ray_session.dead_daemon() is None:
            with suppress(ray.exceptions.RayError):
                ray.kill(self._pool)
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # not the last of its sweep
            self._folder.parent.rmdir()

    def _say_goodbye(self, *threads: threading.Thread) -> None:
        self._ended.set()
        with suppress(ray.exceptions.RayError):
            ray.get(self._pool.close.remote())
        deadline = time.monotonic() + _FAREWELL_SECONDS
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _fill_memory(self) -> None:
        """Start the gangs that the memory permits, and end those that it does not: a worker that is
        killed for memory repeats an epoch, which is charged again.
        """
        number = fit_into_memory(
            self._slots, workers=self._workers, peak=self._peak, memory=self._memory
        )
        if number == self._allowed:
            return
        self._allowed = number
        if self._gangs:  # before, its start is not waited for
            _get(self._pool.limit_slots.remote(number))
        for slot in range(len(self._gangs), number):
            self._gangs.append(ray_session.caller(self._keep_gang, slot))
            self._gangs[-1].start()

    def _keep_gang(self, slot: int) -> None:
        """Run the trainer of a slot to its end; restart it when it failed too often but a trial had
        made progress.
        """
        try:
            while True:
                before = ray.get(self._pool.progress.remote())
                try:
                    gang(
                        self._name,
                        slot=slot,
                        workers=self._workers,
                        settings=self._settings,
                        sweep=self._sweep,
                        folder=self._folder,
                    ).fit()
                    return
                except ray.train.TrainingFailedError:
                    if ray.get(self._pool.progress.remote()) == before:
                        raise
        except Exception as error:  # noqa: BLE001  the main thread reports it
            self._gang_error = one_line(error)

    def _tune(self) -> None:
        try:
            explore(
                self._jobs,
                searcher=None if self._source is None else _Suggestions(self._suggest),
                pool=self._pool,
                slots=self._slots,
                settings=self._settings,
                folder=self._folder,
                ended=self._ended,
            )
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


def explore(
    jobs: Sequence[TrialJob],
    *,
    searcher: Searcher | None,
    pool: Any,
    slots: int,
    settings: RunSettings,
    folder: Path,
    ended: threading.Event,
) -> None:
    """Let Ray Tune explore the jobs, or those of `searcher`, until all are over or `ended` is set.
    `folder` takes Tune's own files.
    """
    # Errors are reported by the pool's events, or by the exceptions of this function.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    if settings.sealed:
        # Tune writes names and numbers of its trials: here those of the slots.
        grid = Grid({"slot": tune.grid_search(list(range(slots)))})
    else:
        grid = grid_of(jobs) if searcher is None else Grid({})
    trial = tune.with_parameters(
        _lease_all if settings.sealed else _lease_one, pool=pool, names=grid.names
    )
    tune.Tuner(
        # A Tune trial represents its workers, so it must never keep the CPUs that they wait for.
        tune.with_resources(trial, {"memory": 1}),
        param_space=grid.space,
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=1 if searcher is None else -1,
            scheduler=scheduler(settings),
            reuse_actors=True,
            max_concurrent_trials=slots,
            trial_name_creator=grid.name_of_trial,
            trial_dirname_creator=grid.name_of_trial,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder),
            failure_config=tune.FailureConfig(max_failures=settings.max_failures),
            stop=_Stop(ended),
            callbacks=[_Notice(pool, grid)],
            verbose=0,
        ),
    ).fit()


@dataclass(frozen=True)
class Grid:
    """Tune's `param_space`; `names` has the trial of each point, by its JSON text."""

    space: dict[str, Any]
    names: dict[str, str] = field(default_factory=dict)

    def name_of_trial(self, trial: Any) -> str:
        """The sweep's trial that a Tune trial stands for."""
        return _name_of(trial.config, self.names)


def grid_of(jobs: Sequence[TrialJob]) -> Grid:
    """The points of the jobs as Tune shows them: a grid search of each axis where they are its
    whole product, else a grid search of the trials with the values of each.
    """
    axes = list(dict.fromkeys(axis for job in jobs for axis in job.point))
    points = {job.trial_id: {axis: job.point.get(axis) for axis in axes} for job in jobs}
    names = {_text(point): name for name, point in points.items()}
    values = {
        axis: list({_text(p[axis]): p[axis] for p in points.values()}.values()) for axis in axes
    }
    if axes and len(jobs) == len(names) == math.prod(map(len, values.values())):
        return Grid({axis: tune.grid_search(each) for axis, each in values.items()}, names)
    space: dict[str, Any] = {_TRIAL: tune.grid_search(list(points))}
    for axis in axes:
        space[axis] = tune.sample_from(lambda spec, axis=axis: points[spec["config"][_TRIAL]][axis])
    return Grid(space)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _name_of(config: Mapping[str, Any], names: Mapping[str, str]) -> str:
    if names:
        return names[_text(config)]
    return str(config[_TRIAL] if _TRIAL in config else config["slot"])


def _lease_one(config: dict[str, Any], pool: Any, names: dict[str, str]) -> None:
    """The Tune trial of one trial. It ends with the pool."""
    with suppress(ray.exceptions.ActorDiedError):
        name = _name_of(config, names)
        ray.get(pool.lease.remote(name))
        values = [
            f"{axis.rpartition('.')[2]}={value}"
            for axis, value in config.items()
            if value is not None and axis != _TRIAL
        ]
        # Ray's dashboard lists calls by their names, and so the trials by their points.
        _follow(pool.news.options(name=f"{name}: {', '.join(values)}"), name, tune.report)


def _lease_all(config: dict[str, Any], pool: Any, names: dict[str, str]) -> None:
    """The Tune trial of a slot, which takes one trial after another whose number is secret."""
    with suppress(ray.exceptions.ActorDiedError):
        while (name := ray.get(pool.lease_any.remote(str(config["slot"])))) is not None:
            _follow(pool.news, name, lambda metrics: None)


def _follow(ask: Any, name: str, report: Callable[[dict[str, Any]], None]) -> None:
    """Pass the reports of a trial to the scheduler until the trial is over."""
    seen = passed = 0
    while True:
        news: News | None = ray.get(ask.remote(name, seen, wait=_POLL_SECONDS))
        if news is None:
            continue
        if news.over:
            return
        # After a crash an epoch is reported once more; schedulers expect time to move.
        if news.report is not None and news.report.epochs_done > passed:
            passed = news.report.epochs_done
            report({**news.report.metrics, TIME_ATTR: passed})
        seen = news.serial


class _Notice(TrialProgressCallback):  # type: ignore[misc]  # ray is untyped here
    """Notifies the pool that a Tune trial ended, whose actor may be dead already; no effect where
    the trial of the sweep was over. It replaces Tune's callback that prints the trials.
    """

    def __init__(self, pool: Any, grid: Grid) -> None:
        super().__init__()
        self._pool = pool
        self._grid = grid

    def on_trial_result(self, *args: Any, **info: Any) -> None:
        """Print nothing: the driver shows a table."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Stop the workers of a trial that the scheduler stopped."""
        self._leave(trial, STOPPED_BY_TUNE)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Stop the workers of a trial whose actor died too often."""
        self._leave(trial, "its trial of Ray Tune failed")

    def _leave(self, trial: Any, reason: str) -> None:
        leave = self._pool.leave_any if "slot" in trial.config else self._pool.leave
        leave.remote(self._grid.name_of_trial(trial), reason)


class _Stop(tune.Stopper):  # type: ignore[misc]
    """Ends Tune once an event is set."""

    def __init__(self, ended: threading.Event | None = None) -> None:
        self._ended = ended or threading.Event()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether everything is to end."""
        return self._ended.is_set()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Stop:
        return self

    def __reduce__(self) -> Any:
        return _Stop, ()  # Tune keeps a copy on disk, which nothing reads


class _Suggestions(Searcher):  # type: ignore[misc]
    """A search of this project for Tune. It reads the results of its trials from the sweep's
    folder, so that a resumed sweep has them all.
    """

    def __init__(self, suggest: Callable[[], TrialJob | None]) -> None:
        super().__init__()
        self._suggest = suggest

    def suggest(self, trial_id: str) -> Any:
        """The config of the next trial."""
        job = self._suggest()
        return Searcher.FINISHED if job is None else {_TRIAL: job.trial_id, **job.point}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Ignore the result."""

    def save(self, checkpoint_path: str) -> None:
        """Write an empty file: a sweep is resumed from its own folder."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Never called."""

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Suggestions:
        return self


def scheduler(settings: RunSettings) -> TrialScheduler:
    """Tune's scheduler for `settings.scheduler`, on the validation metric after each epoch."""
    common = {"time_attr": TIME_ATTR, "metric": settings.metric, "mode": settings.mode}
    if settings.scheduler == "asha":
        return ASHAScheduler(
            **common,
            # Ray refuses a grace period longer than the longest trial; there nothing is stopped.
            max_t=max(settings.max_epochs, settings.grace_epochs),
            grace_period=settings.grace_epochs,
            reduction_factor=settings.reduction_factor,
        )
    if settings.scheduler == "median":
        return MedianStoppingRule(**common, grace_period=settings.grace_epochs)
    return FIFOScheduler()


def _place(jobs: Sequence[TrialJob], source: JobSource | None) -> Path:
    """The sweep's folder."""
    return source.folder if source is not None else jobs[0].folder.parent.parent


class _RayIsLost(SweepError):
    """A daemon of Ray has died, so Ray cannot be called any more."""


def _broke_down(what: str, sweep: str) -> SweepError:
    return SweepError(
        f"Ray failed ({what}); finished epochs are saved: `sweep resume {sweep}` continues"
    )


def _require_daemons(sweep: str) -> None:
    """Raises: _RayIsLost where a daemon of the local cluster has died."""
    lost = ray_session.dead_daemon()
    if lost is not None:
        raise _RayIsLost(str(_broke_down(f"its {lost} died", sweep)))


def _get(answer: Any) -> Any:
    """`ray.get` that does not wait for a dead Ray, which would end this process."""
    while True:
        try:
            return ray.get(answer, timeout=_PATIENCE_SECONDS)
        except ray.exceptions.GetTimeoutError:
            if ray_session.dead_daemon() is not None:
                raise

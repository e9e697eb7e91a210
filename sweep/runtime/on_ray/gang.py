"""Runs trials on Ray by gangs of Ray Train workers that stay for the whole sweep.

Building a `TorchTrainer` costs tens of seconds, a trial of a small model less than one. So each
slot has one `TorchTrainer` whose workers take one trial after another from a broker actor.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, get_device

from sweep import interrupts
from sweep.planning.resources import choose_slots, fit_into_memory
from sweep.runtime.broker import Assignment, Broker
from sweep.runtime.events import (
    Events,
    Interrupted,
    JobSource,
    RunSettings,
    TrialEvent,
    TrialJob,
    Verdict,
)
from sweep.runtime.on_ray import session as ray_session
from sweep.runtime.on_ray import trainer as ray_trainer
from sweep.runtime.on_ray import tune as ray_tune
from sweep.runtime.worker_loop import Workplace, one_line, work
from trainables.errors import SweepError
from trainables.result import EpochReport, TrialResult
from trainables.system.memory import peak_memory

_FOLDER = ".ray"  # in the sweep's: files of Tune and Train
_POLL_SECONDS = 5.0
_DRIVER_POLL_SECONDS = 0.5
_FAREWELL_SECONDS = 15.0
_PULSE_SECONDS = 60.0
_PATIENCE_SECONDS = 2.0
_TUNE_SECONDS = 10.0  # after the first report of a sweep without a scheduler


def run_on_ray(
    jobs: Sequence[TrialJob],
    *,
    events: Events,
    settings: RunSettings,
    stop_requested: Callable[[], bool] = lambda: False,
    source: JobSource | None = None,
) -> None:
    """Run every job to its end, and the jobs that `source` chooses; `source` and `events` are
    called in this thread.

    Raises: InvalidInput where the workers do not fit on the cluster; Interrupted on SIGINT, on
    SIGTERM or once `stop_requested` returns True; SweepError where no group of workers can be kept
    alive; any exception of `events`. In all these cases the workers have ended when this returns,
    and unfinished jobs can be run again.
    """
    # The round of the source's number of workers is last: it can use results of the others.
    last = source.workers if source is not None else 0
    jobs = sorted(jobs, key=lambda job: (job.workers == last, job.workers))
    with ray_session.session(settings), interrupts.postpone() as interrupted:
        ray_session.finish_acts()  # of an earlier call, whose places these jobs need
        if jobs or source is not None:  # what a killed process has left
            shutil.rmtree(_place(jobs, source) / _FOLDER, ignore_errors=True)
        size = ray_session.cluster_size()
        by_workers = itertools.groupby(jobs, key=lambda job: job.workers)
        groups = [(workers, list(group)) for workers, group in by_workers]
        if last and not any(workers == last for workers, _ in groups):
            groups.append((last, []))
        slots = [choose_slots(workers, settings, size) for workers, _ in groups]
        for (workers, group), at_a_time in zip(groups, slots, strict=True):
            own = source if workers == last else None
            if not group and (own is None or not own.num_left):
                continue
            work_round = _Round(
                group,
                workers,
                slots=at_a_time,
                memory=size.memory_bytes,
                settings=settings,
                source=own,
            )
            work_round.run(events, lambda: interrupted() or stop_requested())
            if workers == groups[-1][0]:
                ray_session.before_end(work_round.clear_up)
            else:
                work_round.clear_up()  # the next round needs its places


class _Round:
    """All jobs that have the same number of workers: a broker, the gangs, the Tune trials."""

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
        self._announced: SimpleQueue[str | None] = SimpleQueue()
        for job in jobs:
            self._announced.put(job.trial_id)
        place = _place(jobs, source)
        self._folder = place.resolve() / _FOLDER / uuid.uuid4().hex[:8]
        self._sweep = place.name  # name of its actors in Ray's dashboard
        self._name = f"{place.name}-broker-{uuid.uuid4().hex[:12]}"
        self._broker = (
            ray.remote(Broker)
            .options(
                name=self._name,
                namespace=ray_session.NAMESPACE,
                num_cpus=0,
                max_concurrency=1_000,
            )
            .remote(
                jobs,
                max_failures=settings.max_failures,
                lease_seconds=settings.lease_seconds,
                more=source is not None,
                scheduled=settings.scheduler != "none",
            )
        )
        self._gang_error = self._tune_error = ""
        self._allowed = 0  # slots at present
        self._gangs: list[threading.Thread] = []  # of the first slots
        self._trained_since: float | None = None  # by the clock
        self._tuner = ray_session.caller(self._tune)

    def run(self, events: Events, stop_requested: Callable[[], bool]) -> None:
        """Answer the broker's questions until every job is over; call `clear_up` afterwards.

        Without a scheduler Tune only shows the trials, and its start is not waited for.
        """
        self._folder.mkdir(parents=True)
        try:
            self._fill_memory()
            if self._settings.scheduler != "none":
                self._tuner.start()
            while self._goes_on():
                if stop_requested():
                    raise Interrupted("the sweep was interrupted; its workers have stopped")
                self._answer(events, wait=_DRIVER_POLL_SECONDS)
                self._feed()
                self._show_in_tune()
                _require_daemons(self._sweep)
        except BaseException as error:
            try:
                self._break_off(error)
            finally:
                self._remove()
            raise

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
            # The Tune trials of a dead broker end without further action.
            self._say_goodbye(self._tuner)
            raise _broke_down(type(error).__name__, self._sweep) from None
        # Workers in the middle of an epoch end with their cluster. Tune must have ended before.
        if not interrupts.is_stopping():  # this process is about to end, and its Ray with it
            self._say_goodbye(self._tuner)

    def _remove(self) -> None:
        if ray_session.dead_daemon() is None:
            with suppress(ray.exceptions.RayError):
                ray.kill(self._broker)
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # not the last of its sweep
            self._folder.parent.rmdir()

    def _feed(self) -> None:
        """Add a chosen job for every gang that waits for one."""
        if self._source is None:
            return
        for _ in range(_get(self._broker.num_waiting.remote())):
            job = self._source.next()
            if job is None:
                self._source = None
                self._announced.put(None)
                _get(self._broker.no_more.remote())
                return
            _get(self._broker.add.remote(job))
            self._announced.put(job.trial_id)

    def _say_goodbye(self, *threads: threading.Thread) -> None:
        self._announced.put(None)
        with suppress(ray.exceptions.RayError):
            ray.get(self._broker.close.remote())
        deadline = time.monotonic() + _FAREWELL_SECONDS
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _answer(self, events: Events, *, wait: float) -> None:
        question: tuple[int, TrialEvent]
        for question in _get(self._broker.questions.remote(wait=wait)):
            number, event = question
            self._broker.answer.remote(number, events(event))
            if event.memory > self._peak:
                self._peak = event.memory
                self._fill_memory()
            if event.kind != "started":
                self._trained_since = self._trained_since or time.monotonic()

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
            _get(self._broker.limit_slots.remote(number))
        for slot in range(len(self._gangs), number):
            self._gangs.append(ray_session.caller(self._keep_gang, slot))
            self._gangs[-1].start()

    def _show_in_tune(self) -> None:
        """Start Tune, where it only shows the trials, after these have run for a while."""
        begun = self._trained_since
        waited = begun is not None and time.monotonic() - begun > _TUNE_SECONDS
        # Tune writes a folder with the name of each trial.
        if waited and self._tuner.ident is None and not self._settings.sealed:
            self._tuner.start()

    def _goes_on(self) -> bool:
        unfinished: list[str] = _get(self._broker.unfinished_trials.remote())
        if unfinished and not any(thread.is_alive() for thread in self._gangs):
            why = self._gang_error or "the reason is unknown"
            raise SweepError(f"workers failed repeatedly: {why}")
        if unfinished and self._tuner.ident is not None and not self._tuner.is_alive():
            # Correct where the scheduler stopped the last trials, whose workers still measure.
            if self._tune_error:
                raise SweepError(f"Ray Tune failed: {self._tune_error}")
            _get(self._broker.let_go.remote())
        return bool(unfinished) or self._source is not None

    def _keep_gang(self, slot: int) -> None:
        """Run the trainer of a slot to its end; restart it when it failed too often but a trial had
        made progress.
        """
        try:
            while True:
                before = ray.get(self._broker.progress.remote())
                try:
                    self._trainer(slot).fit()
                    return
                except ray.train.TrainingFailedError:
                    if ray.get(self._broker.progress.remote()) == before:
                        raise
        except Exception as error:  # noqa: BLE001  the main thread reports it
            self._gang_error = one_line(error)

    def _trainer(self, slot: int) -> TorchTrainer:
        settings = self._settings
        place = Workplace(
            function=settings.function,
            data_dir=settings.data_dir.resolve(),
            cache_dir=settings.cache_dir.resolve(),
        )
        resources: dict[str, float] = {"CPU": settings.cpus_per_worker}
        if settings.gpus_per_worker > 0:
            resources["GPU"] = settings.gpus_per_worker
        trainer = (
            ray_trainer.SharedClusterTrainer if settings.address else ray_trainer.OwnClusterTrainer
        )
        return trainer(
            gang_loop,
            train_loop_config={
                "broker": self._name,
                "slot": slot,
                "place": place,
                "threads": settings.cpus_per_worker,
            },
            scaling_config=ScalingConfig(
                num_workers=self._workers,
                use_gpu=settings.gpus_per_worker > 0,
                resources_per_worker=resources,
            ),
            # NCCL refuses two workers on one GPU, and one by itself needs none.
            torch_config=(TorchConfig if settings.address else ray_trainer.LoopbackTorchConfig)(
                backend="nccl" if settings.gpus_per_worker >= 1 and self._workers > 1 else "gloo"
            ),
            run_config=RunConfig(
                name=f"{self._sweep}-slot-{slot}-{uuid.uuid4().hex[:8]}",
                storage_path=str(self._folder),
                failure_config=FailureConfig(
                    max_failures=settings.max_failures,
                    controller_failure_limit=settings.max_failures,
                ),
            ),
        )

    def _tune(self) -> None:
        try:
            ray_tune.run_tuner(
                [job.trial_id for job in self._jobs],
                announced=self._announced if self._source is not None else None,
                broker=self._broker,
                broker_name=self._name,
                at_a_time=self._slots,
                settings=self._settings,
                folder=self._folder,
            )
        except Exception as error:  # noqa: BLE001  the main thread reports it
            self._tune_error = one_line(error)


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


def gang_loop(config: dict[str, Any]) -> None:
    """The main function of each Ray Train worker of a gang."""
    import torch

    from sweep.runtime.torch_team import team

    torch.set_num_threads(config["threads"])
    try:
        broker = ray.get_actor(config["broker"], namespace=ray_session.NAMESPACE)
    except ValueError:  # the sweep was interrupted while this group was built
        return
    threading.Thread(target=_end_with, args=[broker], daemon=True).start()
    desk = _RayDesk(broker, slot=config["slot"])
    work(desk, team(get_device()), config["place"])


def _end_with(broker: Any) -> None:
    """End this process when the broker has died."""
    while True:
        try:
            ray.get(broker.pulse.remote(wait=_PULSE_SECONDS))
        except ray.exceptions.RayActorError:
            os._exit(1)


class _RayDesk:
    """A worker's connection to the broker actor."""

    def __init__(self, broker: Any, *, slot: int) -> None:
        self._broker = broker
        self._slot = slot
        self._generation = uuid.uuid4().hex

    def take(self) -> Assignment | None:
        while True:
            taken: Any = ray.get(
                self._broker.take.remote(self._slot, self._generation, wait=_POLL_SECONDS)
            )
            if isinstance(taken, Assignment):
                return taken
            if taken == "over":
                return None

    def report(self, trial_id: str, attempt: int, report: EpochReport) -> Verdict:
        verdict: Verdict = ray.get(
            self._broker.report.remote(trial_id, attempt, report, peak_memory())
        )
        return verdict

    def finish(self, trial_id: str, attempt: int, result: TrialResult) -> None:
        ray.get(self._broker.finish.remote(trial_id, attempt, result))

    def fail(self, trial_id: str, attempt: int, reason: str) -> None:
        ray.get(self._broker.fail.remote(trial_id, attempt, reason))

    def last_words(self, trial_id: str, attempt: int, reason: str) -> None:
        ray.get(self._broker.last_words.remote(trial_id, attempt, reason))

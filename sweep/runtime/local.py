"""The executor without Ray: trials one after another in this process, for debugging and tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import SimpleQueue

from sweep import interrupts
from sweep.runtime.events import (
    Assignment,
    Interrupted,
    Questions,
    RunSettings,
    TrialEvent,
    TrialJob,
    Verdict,
)
from sweep.runtime.jobs import ChosenJobs
from sweep.runtime.worker_loop import LoneTeam, work


def questions(
    jobs: Sequence[TrialJob],
    settings: RunSettings,
    stop_requested: Callable[[], bool],
    source: ChosenJobs | None,
) -> Questions:
    """Run every job to its end with one process each, whatever its `workers`, on the machine's
    first GPU where `gpus_per_worker` is 1, otherwise on the CPU. The trials run in a thread; either
    it or the caller works at a time.

    Raises: Interrupted, after an answer, when `stop_requested`.
    """
    desk = _Desk(jobs, source, settings)
    desk.start()
    try:
        while (event := desk.asked.get()) is not None:
            yield event, desk.answers.put
            if stop_requested():
                raise Interrupted("the sweep was interrupted")
    finally:
        desk.answers.put(None)  # ends a trial at its next report
        if not interrupts.is_stopping():  # this process is about to end, and its threads with it
            desk.join()
    if desk.failure is not None:
        raise desk.failure


class _Desk(threading.Thread):
    """The thread of the trials, which assigns jobs in order and hands events over."""

    def __init__(
        self, jobs: Sequence[TrialJob], source: ChosenJobs | None, settings: RunSettings
    ) -> None:
        super().__init__(name="trials", daemon=True)
        self.asked: SimpleQueue[TrialEvent | None] = SimpleQueue()
        self.answers: SimpleQueue[Verdict | None] = SimpleQueue()
        self.failure: BaseException | None = None
        self._jobs = list(jobs)
        self._source = source
        self._settings = settings
        self._why = ""  # why the present trial must stop

    def run(self) -> None:
        device = "cuda" if self._settings.gpus_per_worker else "cpu"
        try:
            work(self, LoneTeam(device), self._settings)
        except BaseException as error:  # noqa: BLE001  the caller's thread raises it
            self.failure = error
        self.asked.put(None)

    def take(self) -> Assignment | None:
        while True:
            job = self._jobs.pop(0) if self._jobs else None
            if job is None and self._source is not None:
                job = self._source.next()
            if job is None:
                return None
            self._why = ""
            verdict = self.send(TrialEvent(kind="started", trial_id=job.trial_id))
            if verdict.go_on:
                return Assignment(job, epochs_done=verdict.epochs_done)

    def send(self, event: TrialEvent) -> Verdict:
        if event.kind == "dying":  # and says how it failed
            return Verdict()
        if event.kind == "finished":
            event = replace(event, reason=self._why)
        self.asked.put(event)
        verdict = self.answers.get()
        if verdict is None:
            raise SystemExit  # which ends a thread, and no trial takes it for its own failure
        if event.kind == "epoch" and not verdict.go_on:
            self._why = verdict.reason or "stopped by the driver"
        return verdict

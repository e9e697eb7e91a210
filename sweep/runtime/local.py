"""The executor without Ray: trials one after another in this process, for debugging and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue

from sweep import interrupts
from sweep.runtime.events import (
    GO_ON,
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
    desk = _Desk(jobs, source)
    team = LoneTeam("cuda" if settings.gpus_per_worker else "cpu")
    thread = ThreadPoolExecutor(1, thread_name_prefix="trials")
    trials = thread.submit(work, desk, team, settings)
    trials.add_done_callback(lambda _: desk.asked.put(None))
    try:
        while (event := desk.asked.get()) is not None:
            yield event, desk.answers.put
            if stop_requested():
                raise Interrupted("the sweep was interrupted")
        trials.result()
    finally:
        desk.answers.put(None)  # ends a trial at its next report
        # A process that is about to end takes its threads with it.
        thread.shutdown(wait=not interrupts.is_stopping())


class _Desk:
    """Assigns jobs in order and hands events over."""

    def __init__(self, jobs: Sequence[TrialJob], source: ChosenJobs | None) -> None:
        self.asked: SimpleQueue[TrialEvent | None] = SimpleQueue()
        self.answers: SimpleQueue[Verdict | None] = SimpleQueue()
        self._jobs = list(jobs)
        self._source = source
        self._why = ""  # why the present trial must stop

    def take(self) -> TrialJob | None:
        while True:
            job = self._jobs.pop(0) if self._jobs else None
            if job is None and self._source is not None:
                job = self._source.next()
            if job is None:
                return None
            self._why = ""
            verdict = self.send(TrialEvent(kind="started", trial_id=job.trial_id))
            if verdict.go_on:
                return replace(job, epochs_done=verdict.epochs_done)

    def send(self, event: TrialEvent) -> Verdict:
        if event.kind == "dying":  # and says how it failed
            return GO_ON
        if event.kind == "finished":
            event = replace(event, reason=self._why)
        self.asked.put(event)
        verdict = self.answers.get()
        if verdict is None:
            raise SystemExit  # which ends a thread, and no trial takes it for its own failure
        if event.kind == "epoch":
            self._why = verdict.reason
        return verdict

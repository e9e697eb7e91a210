"""The executor without Ray: trials one after another in this process, for debugging and tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep.runtime.events import (
    EventKind,
    Events,
    Interrupted,
    JobSource,
    RunSettings,
    TrialEvent,
    TrialJob,
    Verdict,
)
from sweep.runtime.pool import Assignment
from sweep.runtime.worker_loop import LoneTeam, Workplace, work
from trainables.result import EpochReport, TrialResult


def run_local(
    jobs: Sequence[TrialJob],
    *,
    events: Events,
    settings: RunSettings,
    stop_requested: Callable[[], bool] = lambda: False,
    source: JobSource | None = None,
) -> None:
    """Run every job to its end with one process each, whatever its `workers`, on the machine's
    first GPU where `gpus_per_worker` is 1, otherwise on the CPU.

    Raises: Interrupted on Ctrl-C, or after an event when `stop_requested`.
    """
    place = Workplace(
        function=settings.function, data_dir=settings.data_dir, cache_dir=settings.cache_dir
    )
    team = LoneTeam("cuda" if settings.gpus_per_worker else "cpu")
    try:
        work(_LocalDesk(list(jobs), events, stop_requested, source), team, place)
    except KeyboardInterrupt:
        raise Interrupted("the sweep was interrupted") from None


@dataclass
class _LocalDesk:
    """Assigns jobs in order and calls the driver directly."""

    jobs: list[TrialJob]
    events: Events
    stop_requested: Callable[[], bool]
    source: JobSource | None = None
    stop: dict[str, str] = field(default_factory=dict)

    def take(self) -> Assignment | None:
        while True:
            job = self.jobs.pop(0) if self.jobs else None
            if job is None and self.source is not None:
                job = self.source.next()
            if job is None:
                return None
            verdict = self._send("started", job.trial_id)
            if verdict.go_on:
                return Assignment(job, attempt=1, epochs_done=verdict.epochs_done)

    def report(self, trial_id: str, attempt: int, report: EpochReport) -> Verdict:
        verdict = self._send("epoch", trial_id, report=report)
        if not verdict.go_on:
            self.stop[trial_id] = verdict.reason or "stopped by the driver"
        return verdict

    def finish(self, trial_id: str, attempt: int, result: TrialResult) -> None:
        self._send("finished", trial_id, result=result, reason=self.stop.get(trial_id, ""))

    def fail(self, trial_id: str, attempt: int, reason: str) -> None:
        self._send("failed", trial_id, reason=reason)

    def last_words(self, trial_id: str, attempt: int, reason: str) -> None:
        """Do nothing, because a single process always reports by `fail`."""

    def _send(self, kind: EventKind, trial_id: str, **fields: Any) -> Verdict:
        verdict = self.events(TrialEvent(kind=kind, trial_id=trial_id, time=time.time(), **fields))
        if self.stop_requested():
            raise KeyboardInterrupt
        return verdict

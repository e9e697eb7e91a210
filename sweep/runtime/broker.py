"""The message broker between groups of workers, Tune trials, and the driver.

`Broker` is an asyncio state machine without Ray; `sweep.runtime.on_ray.gang` runs it as a named
actor. A worker's report waits here until the driver has written and permitted it and, with a
scheduler, until the Tune trial of the same name has passed it on. Only then may the next epoch
start.

Every waiting call returns None after `wait` seconds (the caller calls again), and a Tune trial that
is silent for `lease_seconds` is ignored. Its workers then need only the driver's permission, which
guards the privacy budget.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from sweep.runtime.events import GO_ON, EventKind, TrialEvent, TrialJob, Verdict
from trainables.result import EpochReport, TrialResult

State = Literal["ready", "starting", "running", "over"]


@dataclass(frozen=True)
class Assignment:
    """A trial assigned to a gang, which resumes from a checkpoint where `epochs_done` is not 0."""

    job: TrialJob
    attempt: int
    epochs_done: int = 0


@dataclass(frozen=True)
class News:
    """A message to a Tune trial: a report for the scheduler, or the end of the trial."""

    serial: int
    report: EpochReport | None
    over: bool


@dataclass
class _Trial:
    job: TrialJob
    state: State = "ready"
    attempt: int = 0
    failures: int = 0
    last_words: str = ""  # reason why a worker of the current attempt failed
    stop: str = ""  # reason why the trial must stop
    lease: float = 0.0  # time until which the Tune trial is waited for
    gone: bool = False  # the Tune trial failed and is not waited for
    serial: int = 0  # of the newest report
    acknowledged: int = 0  # the newest serial that the scheduler permitted
    report: EpochReport | None = None


@dataclass
class _Slot:
    generation: str = ""
    trial_id: str | None = None


@dataclass
class _Question:
    event: TrialEvent
    answer: asyncio.Future[Verdict] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Broker:
    """Assigns `jobs`, one per free gang, and passes reports and verdicts.

    `max_failures`: worker deaths after which a trial has failed. `more`: jobs will be added,
    whenever a gang waits for one, until `no_more`. `scheduled`: a scheduler may stop trials; it
    decides before the driver, whose permission pays for an epoch. Without one the driver alone
    decides, and Tune's trials follow. A job is assigned before its Tune trial exists. Methods are
    coroutines of one event loop, so each runs atomically between its awaits.
    """

    def __init__(
        self,
        jobs: list[TrialJob],
        *,
        max_failures: int,
        lease_seconds: float,
        more: bool = False,
        scheduled: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trials = {job.trial_id: _Trial(job) for job in jobs}
        self._queue = list(self._trials)
        self._max_failures = max_failures
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._slots: dict[int, _Slot] = {}
        self._questions: dict[int, _Question] = {}
        self._unsent: list[int] = []
        self._serial = 0
        self._progress = 0
        self._num_slots: float = math.inf
        self._closed = False
        self._more = more
        self._scheduled = scheduled
        self._waiting: set[int] = set()  # slots whose gang waits for a job
        self._changed = asyncio.Condition()

    # ---- the Tune trial's side

    async def enter(self, trial_id: str) -> None:
        """Register the Tune trial, also after a restart."""
        trial = self._trials[trial_id]
        trial.gone = False
        self._renew(trial)
        await self._notify()

    async def news(self, trial_id: str, seen: int, *, wait: float) -> News | None:
        """The report after serial number `seen`, or the end; None when `wait` seconds passed."""
        trial = self._trials[trial_id]
        self._renew(trial)

        def found() -> bool:
            return self._closed or trial.state == "over" or trial.serial > seen

        if not await self._until(found, wait):
            return None
        self._renew(trial)
        return News(trial.serial, trial.report, over=self._closed or trial.state == "over")

    async def acknowledge(self, trial_id: str, serial: int) -> None:
        """Acknowledge that the scheduler permitted report `serial`."""
        trial = self._trials[trial_id]
        self._renew(trial)
        trial.acknowledged = max(trial.acknowledged, serial)
        await self._notify()

    async def leave(self, trial_id: str, *, stopped: bool) -> None:
        """End the Tune trial. `stopped`: by the scheduler, so the workers stop too; otherwise it
        failed, and they continue without it.
        """
        trial = self._trials[trial_id]
        if trial.state == "over":
            return
        trial.gone = True
        if stopped and not trial.stop:
            trial.stop = "stopped by the scheduler"
        await self._notify()

    # ---- the gang's side

    async def take(
        self, slot: int, generation: str, *, wait: float
    ) -> Assignment | Literal["over"] | None:
        """The next trial for the gang in `slot`; "over" when none will come or the slot is beyond
        the limit; None: call again.

        `generation` names the present group of processes. A new generation whose slot has an
        unfinished trial is the rebuilt group of workers that died. It gets the same trial again,
        until that has failed too often.
        """
        place = self._slots.setdefault(slot, _Slot())
        if place.generation != generation:
            place.generation = generation
            if place.trial_id is not None:
                await self._count_failure(place)
        deadline = self._clock() + wait
        while True:
            if place.trial_id is not None:  # the retry of a trial whose workers died
                return await self._hand_over(place, self._trials[place.trial_id])

            def is_over() -> bool:
                return self._closed or self._all_over() or slot >= self._num_slots

            def found() -> bool:
                return bool(self._queue) or is_over()

            self._waiting.add(slot)
            await self._notify()
            arrived = await self._until(found, max(0.0, deadline - self._clock()))
            self._waiting.discard(slot)
            if not arrived:
                return None
            if is_over():
                return "over"
            if place.generation != generation:  # this caller was replaced by its successor
                return None
            trial = self._trials[self._queue.pop(0)]
            place.trial_id = trial.job.trial_id
            assignment = await self._hand_over(place, trial)
            if assignment is not None:
                return assignment

    async def report(
        self, trial_id: str, attempt: int, report: EpochReport, memory: int = 0
    ) -> Verdict:
        """Wait for driver and scheduler; returns whether `attempt` may train another epoch."""
        trial = self._trials[trial_id]
        if trial.attempt != attempt or trial.state != "running":
            return Verdict(False, "superseded by a newer attempt")
        self._progress += 1
        trial.serial += 1
        trial.report = report
        serial = trial.serial
        if self._scheduled:
            await self._notify()
            await self._wait_for_scheduler(trial, serial)
        verdict = await self._ask("epoch", trial, report=report, reason=trial.stop, memory=memory)
        if not verdict.go_on:
            trial.stop = trial.stop or verdict.reason or "stopped by the driver"
            await self._notify()
        if trial.stop:
            return Verdict(False, trial.stop)
        return GO_ON

    async def finish(self, trial_id: str, attempt: int, result: TrialResult) -> None:
        """End the trial; returns when the driver has written its result."""
        trial = self._trials[trial_id]
        if trial.attempt == attempt and trial.state == "running":
            await self._end("finished", trial, result=result, reason=trial.stop)

    async def fail(self, trial_id: str, attempt: int, reason: str) -> None:
        """Fail the trial after an exception; it is not tried again."""
        trial = self._trials[trial_id]
        if trial.attempt == attempt and trial.state == "running":
            await self._end("failed", trial, reason=reason)

    async def last_words(self, trial_id: str, attempt: int, reason: str) -> None:
        """Record why a worker is about to exit: the trial's reason where no attempt is left."""
        trial = self._trials[trial_id]
        if trial.attempt == attempt:
            trial.last_words = reason

    async def pulse(self, *, wait: float) -> None:
        """Return after `wait` seconds. A waiting caller notices this actor's death at once."""
        await asyncio.sleep(wait)

    # ---- the driver's side

    async def questions(self, *, wait: float) -> list[tuple[int, TrialEvent]]:
        """Events that wait for a verdict, oldest first; empty when `wait` seconds passed, or when
        a gang waits for a job that is still to be added.
        """
        await self._until(lambda: bool(self._unsent) or self._num_missing() > 0, wait)
        unsent, self._unsent = self._unsent, []
        return [(number, self._questions[number].event) for number in unsent]

    async def answer(self, number: int, verdict: Verdict) -> None:
        """The driver's verdict on a question."""
        self._questions.pop(number).answer.set_result(verdict)

    async def num_waiting(self) -> int:
        """Number of gangs that wait for a job that is still to be added."""
        return self._num_missing()

    async def add(self, job: TrialJob) -> None:
        """Add a job with a new id."""
        self._trials[job.trial_id] = _Trial(job)
        self._queue.append(job.trial_id)
        await self._notify()

    async def limit_slots(self, number: int) -> None:
        """Keep the first `number` slots: a gang of another one ends after its trial."""
        self._num_slots = number
        await self._notify()

    async def no_more(self) -> None:
        """Declare that no job will be added."""
        self._more = False
        await self._notify()

    async def unfinished_trials(self) -> list[str]:
        """Ids of the trials that are not over."""
        return [name for name, trial in self._trials.items() if trial.state != "over"]

    async def progress(self) -> int:
        """A counter that grows with the progress of any trial."""
        return self._progress

    async def let_go(self) -> None:
        """Stop waiting for Tune trials, because Tune has ended."""
        for trial in self._trials.values():
            trial.gone = True
        await self._notify()

    async def close(self) -> None:
        """Assign no further job, and end Tune trials and idle gangs."""
        self._closed = True
        await self._notify()

    # ---- inside

    def _renew(self, trial: _Trial) -> None:
        trial.lease = self._clock() + self._lease_seconds

    def _all_over(self) -> bool:
        return not self._more and all(trial.state == "over" for trial in self._trials.values())

    def _num_missing(self) -> int:
        return len(self._waiting) - len(self._queue) if self._more else 0

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, found: Callable[[], bool], wait: float) -> bool:
        try:
            async with asyncio.timeout(wait), self._changed:
                await self._changed.wait_for(found)
        except TimeoutError:
            pass
        return found()

    async def _ask(self, kind: EventKind, trial: _Trial, **fields: Any) -> Verdict:
        event = TrialEvent(
            kind=kind,
            trial_id=trial.job.trial_id,
            time=time.time(),
            attempt=trial.attempt,
            **fields,
        )
        question = _Question(event)
        self._serial += 1
        self._questions[self._serial] = question
        self._unsent.append(self._serial)
        await self._notify()
        return await question.answer

    async def _hand_over(self, place: _Slot, trial: _Trial) -> Assignment | None:
        """The assignment, or None where the driver does not permit the trial to start."""
        trial.state = "starting"
        trial.attempt += 1
        verdict = await self._ask("started", trial)
        if not verdict.go_on:
            trial.state = "over"
            self._vacate(trial)
            await self._notify()
            return None
        trial.state = "running"
        self._renew(trial)  # the Tune trial has as long to appear
        trial.serial += 1  # so that reports of an older attempt are not taken for this one's
        return Assignment(trial.job, trial.attempt, verdict.epochs_done)

    async def _wait_for_scheduler(self, trial: _Trial, serial: int) -> None:
        def has_reported() -> bool:
            return trial.acknowledged >= serial or bool(trial.stop)

        while not has_reported() and not trial.gone and (left := trial.lease - self._clock()) > 0:
            await self._until(lambda: has_reported() or trial.gone, left)

    async def _count_failure(self, place: _Slot) -> None:
        assert place.trial_id is not None
        trial = self._trials[place.trial_id]
        if trial.state == "over":
            place.trial_id = None
            return
        trial.failures += 1
        if trial.failures > self._max_failures:
            reason = trial.last_words or "its worker processes died"
            await self._end("failed", trial, reason=f"{reason} ({trial.failures} times)")

    async def _end(self, kind: EventKind, trial: _Trial, **fields: Any) -> None:
        self._progress += 1
        await self._ask(kind, trial, **fields)
        trial.state = "over"
        self._vacate(trial)
        await self._notify()

    def _vacate(self, trial: _Trial) -> None:
        """Remove the trial from its gang."""
        for place in self._slots.values():
            if place.trial_id == trial.job.trial_id:
                place.trial_id = None

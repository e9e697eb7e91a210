"""The pool that leases worker groups of workers to Ray Tune's trials: an asyncio state
machine without Ray, which `sweep.runtime.tune` runs as a named actor.

A Tune trial leases a worker group and then takes the reports of its workers one after
another; a report waits until the Tune trial has passed it to its scheduler, and then
until the driver has written it and charged the next epoch. Only then may that epoch
start.
"""

import asyncio
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sweep.runtime.events import (
    DIED,
    GO_ON,
    MAX_FAILURES,
    TrialEvent,
    TrialJob,
    Verdict,
    is_of_machine,
)
from trainables import formats
from trainables.result import EpochReport

STOPPED_BY_TUNE = "stopped by the scheduler of Ray Tune"
State = Literal["ready", "leased", "running", "over"]


@dataclass(eq=False)
class _Trial:
    job: TrialJob
    state: State = "ready"
    attempt: int = 0
    failures: int = 0
    last_words: str = ""  # reason why a worker of the current attempt failed
    stop: str = ""  # reason why the trial must stop
    serial: int = 0  # of the newest report
    permitted: int = 0  # the newest serial that Tune permitted
    report: EpochReport | None = None

    def has_news(self, seen: int) -> bool:
        """Whether it is over, or has a report after the number `seen`."""
        return self.state == "over" or self.serial > seen


@dataclass
class _Slot:
    generation: str = ""
    trial: _Trial | None = None


class Pool:
    """Its methods are coroutines of one event loop: each runs atomically between its
    awaits. `sealed`: the trials are draws, which are not tried again after a failure of
    their own.
    """

    def __init__(self, jobs: Sequence[TrialJob], *, sealed: bool = False) -> None:
        self._sealed = sealed
        self._trials = {job.trial_id: _Trial(job) for job in jobs}
        self._waiting: list[_Trial] = []  # leased, for a worker group
        self._leases: dict[str, _Trial] = {}  # the trial of each Tune trial
        self._slots: dict[int, _Slot] = {}
        self._num_slots = math.inf
        self._unsent: list[tuple[int, TrialEvent]] = []
        self._answers: dict[int, asyncio.Future[Verdict]] = {}
        self._numbers = itertools.count()
        self._serials = itertools.count(1)  # of reports
        self._changed = asyncio.Condition()

    # ---- the Tune trial's side

    async def explore(
        self, explorer: str, seen: int
    ) -> tuple[int, EpochReport | None] | None:
        """The newest report, after the number `seen`, of the trial that the Tune trial
        `explorer` is named after, or, where it is that of a slot, of any that no other
        has; after a restart it is the one that it had before. None: no trial is left.

        The first call leases a worker group for the trial. A later one permits the
        report `seen`, on behalf of the scheduler.
        """
        while self._num_slots:
            trial = self._leases.get(explorer)
            if trial is None or trial.state == "over":
                own = self._trials.get(explorer)
                mine = list(self._trials.values()) if own is None else [own]
                trial = next((each for each in mine if each.state == "ready"), None)
                if trial is None:
                    return None
                self._leases[explorer] = trial
                trial.state = "leased"
                self._waiting.append(trial)
            trial = self._leases[explorer]
            trial.permitted = max(trial.permitted, seen)
            await self._notify()
            await self._until(lambda: not self._num_slots or trial.has_news(seen))  # noqa: B023
            if trial.state != "over" and trial.serial > seen:
                return trial.serial, trial.report
        return None

    async def leave(self, explorer: str, reason: str) -> None:
        """End the trial of a Tune trial that has ended: its workers train no further
        epoch.
        """
        trial = self._leases.get(explorer) or self._trials.get(explorer)
        if trial is None or trial.state == "over":
            return
        trial.stop = trial.stop or reason
        if trial.state == "ready" or trial in self._waiting:  # no worker group has it
            trial.state = "over"
            self._waiting = [each for each in self._waiting if each is not trial]
        await self._notify()

    # ---- the worker group's side

    async def take(self, slot: int, generation: str) -> TrialJob | None:
        """The next leased trial for the worker group in `slot`; None when none will
        come, the slot is beyond the limit, or another group has replaced the caller's.

        `generation` names the group of processes. A new one whose slot has an
        unfinished trial is the rebuilt group of workers that died. It gets the same
        trial until that failed too often.
        """
        place = self._slots.setdefault(slot, _Slot())
        if place.generation != generation:
            place.generation = generation
            await self._notify()  # what is left of the group before
            if (trial := place.trial) is not None:
                trial.failures += 1
                words = trial.last_words or DIED
                is_lost = self._sealed and not is_of_machine(words)
                if trial.failures > MAX_FAILURES or is_lost:
                    failed = TrialEvent(
                        kind="failed",
                        trial_id=trial.job.trial_id,
                        attempt=trial.attempt,
                        reason=f"{words} ({formats.count(trial.failures, 'time')})",
                    )
                    await self._ask(failed)
                    await self._vacate(trial)

        def is_over() -> bool:
            return slot >= self._num_slots or place.generation != generation

        while True:
            if place.trial is None:
                await self._until(lambda: bool(self._waiting) or is_over())
                if is_over():
                    return None
                place.trial = self._waiting.pop(0)
            trial = place.trial
            trial.attempt += 1
            begun = TrialEvent(
                kind="started",
                trial_id=trial.job.trial_id,
                attempt=trial.attempt,
                reason=(trial.last_words or DIED) if trial.attempt > 1 else "",
            )
            trial.last_words = ""
            verdict = await self._ask(begun)
            if not verdict.go_on:
                await self._vacate(trial)
                continue
            trial.state = "running"
            # Reports of an older attempt must not be taken for this one's.
            trial.permitted = trial.serial = next(self._serials)
            trial.report = None
            return replace(
                trial.job, attempt=trial.attempt, epochs_done=verdict.epochs_done
            )

    async def send(self, event: TrialEvent) -> Verdict:
        """What happened to an attempt, once Tune and the driver have answered: of an
        epoch, whether the attempt may train another. One that raised an exception is
        not tried again.
        """
        trial = self._trials[event.trial_id]
        if trial.attempt != event.attempt or trial.state != "running":
            return Verdict("superseded by a newer attempt")
        if event.kind == "dying":
            # Workers that wait for one that has failed say that it is gone.
            if not trial.last_words or not is_of_machine(event.reason):
                trial.last_words = event.reason
            return GO_ON
        if event.kind != "epoch":
            await self._ask(replace(event, reason=event.reason or trial.stop))
            await self._vacate(trial)
            return GO_ON
        serial = trial.serial = next(self._serials)
        trial.report = event.report
        await self._notify()
        await self._until(lambda: trial.permitted >= serial or bool(trial.stop))
        verdict = await self._ask(replace(event, reason=trial.stop))
        trial.stop = trial.stop or verdict.reason
        return Verdict(trial.stop)

    async def check_liveness(self) -> None:
        """Never return: who waits notices this actor's death at once."""
        await asyncio.Event().wait()

    # ---- the driver's side

    async def questions(self) -> list[tuple[int, TrialEvent]]:
        """Events that wait for a verdict, oldest first."""
        await self._until(lambda: bool(self._unsent))
        unsent, self._unsent = self._unsent, []
        return unsent

    async def answer(self, number: int, verdict: Verdict) -> None:
        """The driver's verdict on a question."""
        self._answers.pop(number).set_result(verdict)

    async def add(self, job: TrialJob) -> None:
        """Add a job with a new id."""
        self._trials[job.trial_id] = _Trial(job)

    async def limit_slots(self, number: int) -> None:
        """Keep the first `number` slots: other worker groups end after their trials, at
        0 Tune's, too.
        """
        self._num_slots = number
        await self._notify()

    async def unfinished_trials(self) -> dict[str, State]:
        """The states of the trials that are not over, by their ids."""
        return {
            name: each.state
            for name, each in self._trials.items()
            if each.state != "over"
        }

    # ---- inside

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, found: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(found)

    async def _ask(self, event: TrialEvent) -> Verdict:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._unsent.append((number, event))
        await self._notify()
        verdict: Verdict = await answer
        return verdict

    async def _vacate(self, trial: _Trial) -> None:
        """End the trial, which frees its worker group."""
        trial.state = "over"
        for place in self._slots.values():
            if place.trial is trial:
                place.trial = None
        await self._notify()

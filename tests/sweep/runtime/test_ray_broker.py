"""The broker's promises, without Ray: permission, leases, retries. Time is a fake clock where a
lease runs out; the parties are coroutines of one loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from sweep.runtime.broker import Assignment, Broker
from sweep.runtime.events import GO_ON, TrialEvent, TrialJob, Verdict
from trainables.config import parse
from trainables.result import EpochReport, TrialResult

WAIT = 0.05


def jobs(count: int) -> list[TrialJob]:
    return [
        TrialJob(trial_id=f"t{i}", config=parse({}), folder=Path(f"t{i}")) for i in range(count)
    ]


def epoch(number: int) -> EpochReport:
    return EpochReport(epochs_done=number, seconds=1.0, metrics={"validation_ser": 1.0})


def result(trial_id: str) -> TrialResult:
    return TrialResult(
        trial_id=trial_id, epochs_done=1, stopped_early=False, metrics={}, privacy={}
    )


def play_scene(
    scene: Callable[[Broker, list[TrialEvent]], Coroutine[Any, Any, None]],
    *,
    count: int = 1,
    verdict: Callable[[TrialEvent], Verdict] = lambda event: GO_ON,
    lease_seconds: float = 60.0,
    scheduled: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> list[TrialEvent]:
    """The events of a scene that is played beside a driver."""

    async def play() -> list[TrialEvent]:
        broker = Broker(
            jobs(count),
            max_failures=3,
            lease_seconds=lease_seconds,
            scheduled=scheduled,
            clock=clock,
        )
        seen: list[TrialEvent] = []

        async def driver() -> None:
            while True:
                for number, event in await broker.questions(wait=WAIT):
                    seen.append(event)
                    await broker.answer(number, verdict(event))

        driving = asyncio.create_task(driver())
        await asyncio.wait_for(scene(broker, seen), timeout=60)
        driving.cancel()
        return seen

    return asyncio.run(play())


async def taken(broker: Broker, generation: str = "g", slot: int = 0) -> Assignment:
    assignment = await broker.take(slot, generation, wait=WAIT)
    assert isinstance(assignment, Assignment)
    return assignment


def kinds(events: list[TrialEvent]) -> list[str]:
    return [event.kind for event in events]


def test_without_a_scheduler_the_driver_alone_permits() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        await taken(broker)
        assert await broker.report("t0", 1, epoch(1)) == GO_ON
        news = await broker.news("t0", 1, wait=WAIT)  # the Tune trial comes later
        assert news is not None
        assert news.report == epoch(1)

    assert kinds(play_scene(scene)) == ["started", "epoch"]


def test_a_scheduler_that_stops_a_trial_speaks_before_the_driver_pays() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        await broker.enter("t0")
        await taken(broker)
        asked = asyncio.create_task(broker.report("t0", 1, epoch(1)))
        news = await broker.news("t0", 1, wait=WAIT)
        await asyncio.sleep(WAIT)
        assert kinds(seen) == ["started"]  # the driver has not been asked
        assert news is not None
        await broker.acknowledge("t0", news.serial)
        assert await asked == GO_ON
        asked = asyncio.create_task(broker.report("t0", 1, epoch(2)))
        await asyncio.sleep(WAIT)
        await broker.leave("t0", stopped=True)
        assert await asked == Verdict(False, "stopped by the scheduler")

    events = play_scene(scene, scheduled=True)
    assert [event.reason for event in events] == ["", "", "stopped by the scheduler"]


def test_a_budget_that_says_no_does_not_wait_for_the_scheduler() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        await taken(broker)
        verdict = await broker.report("t0", 1, epoch(1))
        assert verdict == Verdict(False, "epsilon budget")
        await broker.finish("t0", 1, result("t0"))

    events = play_scene(
        scene, verdict=lambda event: Verdict(event.kind != "epoch", "epsilon budget")
    )
    assert kinds(events) == ["started", "epoch", "finished"]
    assert events[-1].reason == "epsilon budget"


def test_workers_of_a_stopped_trial_learn_it_though_its_tune_actor_is_gone() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        await broker.enter("t0")
        await taken(broker)
        asked = asyncio.create_task(broker.report("t0", 1, epoch(1)))
        await asyncio.sleep(WAIT)
        await broker.leave("t0", stopped=True)
        assert await asked == Verdict(False, "stopped by the scheduler")

    play_scene(scene, scheduled=True)


def test_a_silent_tune_trial_loses_its_say_after_the_lease() -> None:
    now = [0.0]

    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        await broker.enter("t0")
        await taken(broker)
        asked = asyncio.create_task(broker.report("t0", 1, epoch(1)))
        await asyncio.sleep(3 * WAIT)  # it looks at the clock again and again
        assert not asked.done()
        now[0] = WAIT
        assert await asked == GO_ON

    play_scene(scene, lease_seconds=WAIT, scheduled=True, clock=lambda: now[0])


def test_a_broken_tune_trial_is_not_waited_for_until_it_comes_back() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        await taken(broker)
        await broker.leave("t0", stopped=False)
        assert await broker.report("t0", 1, epoch(1)) == GO_ON
        await broker.enter("t0")
        asked = asyncio.create_task(broker.report("t0", 1, epoch(2)))
        await asyncio.sleep(WAIT)
        assert not asked.done()
        asked.cancel()

    play_scene(scene, scheduled=True)


def test_a_rebuilt_group_gets_its_trial_again_until_it_died_too_often() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        attempts = [(await taken(broker, f"g{i}")).attempt for i in range(4)]
        assert attempts == [1, 2, 3, 4]
        await broker.last_words("t0", 4, "RuntimeError at step.py:7")
        assert await broker.take(0, "g4", wait=WAIT) == "over"

    events = play_scene(scene)
    assert kinds(events) == ["started"] * 4 + ["failed"]
    assert events[-1].reason == "RuntimeError at step.py:7 (4 times)"


def test_an_older_attempt_is_not_listened_to() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        await taken(broker, "g0")
        await taken(broker, "g1")
        assert not (await broker.report("t0", 1, epoch(1))).go_on
        await broker.finish("t0", 1, result("t0"))
        assert await broker.unfinished_trials() == ["t0"]

    assert kinds(play_scene(scene)) == ["started", "started"]


def test_two_gangs_never_get_the_same_trial_and_none_waits_for_ever() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        first, second = await asyncio.gather(taken(broker, slot=0), taken(broker, slot=1))
        assert {first.job.trial_id, second.job.trial_id} == {"t0", "t1"}
        assert await broker.take(2, "g", wait=WAIT) is None
        for assignment in (first, second):
            await broker.finish(assignment.job.trial_id, 1, result(assignment.job.trial_id))
        assert await broker.take(2, "g", wait=WAIT) == "over"

    play_scene(scene, count=2)


def test_a_gang_beyond_the_limit_ends_after_its_trial() -> None:
    """Its workers' death changes nothing: the trial is its own until the end."""

    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        await taken(broker, slot=0)
        await taken(broker, slot=1)
        late = asyncio.create_task(broker.take(2, "g", wait=60))
        await broker.report("t0", 1, epoch(1), 7)
        await broker.limit_slots(1)
        assert await late == "over"
        assert (await taken(broker, "again", slot=1)).job.trial_id == "t1"
        await broker.finish("t1", 2, result("t1"))
        await broker.add(jobs(3)[2])
        assert await broker.take(1, "again", wait=WAIT) == "over"
        await broker.finish("t0", 1, result("t0"))
        assert (await taken(broker, slot=0)).job.trial_id == "t2"

    events = play_scene(scene, count=2)
    assert [event.memory for event in events if event.kind == "epoch"] == [7]


def test_a_trial_that_the_driver_does_not_let_begin_is_over_at_once() -> None:
    async def scene(broker: Broker, seen: list[TrialEvent]) -> None:
        assert (await taken(broker)).job.trial_id == "t1"
        assert await broker.unfinished_trials() == ["t1"]

    events = play_scene(
        scene, count=2, verdict=lambda event: Verdict(event.trial_id != "t0", "no time is left")
    )
    assert kinds(events) == ["started", "started"]

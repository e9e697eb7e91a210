"""The pool without Ray: an epoch needs Tune's permission and the driver's; trials are
retried.
"""

import asyncio
from pathlib import Path

import pytest

from sweep.runtime.events import GO_ON, TrialEvent, TrialJob, Verdict
from sweep.runtime.pool import STOPPED_BY_TUNE, Pool
from trainables.config.trial import parse
from trainables.result import EpochReport, TrialResult

WAIT = 0.05


def jobs(count):
    return [
        TrialJob(trial_id=f"t{i}", config=parse({}), folder=Path(f"t{i}"))
        for i in range(count)
    ]


def epoch(number):
    return EpochReport(epochs_done=number, seconds=1.0, metrics={"validation_ser": 1.0})


def report(trial_id, attempt, number, *, memory=0):
    return TrialEvent(
        kind="epoch",
        trial_id=trial_id,
        attempt=attempt,
        report=epoch(number),
        memory=memory,
    )


def finished(trial_id, attempt):
    result = TrialResult(
        trial_id=trial_id, epochs_done=1, stopped_early=False, metrics={}, privacy=None
    )
    return TrialEvent(
        kind="finished", trial_id=trial_id, attempt=attempt, result=result
    )


def play_scene(scene, *, count=1, verdict=lambda event: GO_ON, sealed=False):
    """The events of a scene that is played beside a driver."""

    async def play():
        pool = Pool(jobs(count), sealed=sealed)
        seen = pool.seen = []

        async def driver():
            while True:
                for number, event in await pool.questions():
                    seen.append(event)
                    await pool.answer(number, verdict(event))

        driving = asyncio.create_task(driver())
        await asyncio.wait_for(scene(pool), timeout=60)
        driving.cancel()
        return seen

    return asyncio.run(play())


async def taken(pool, generation="g", *, slot=0, trial="t0"):
    """What the gang of a slot gets, once the Tune trial of `trial` has leased one."""
    await waits(pool.explore(trial, 0))
    job = await pool.take(slot, generation)
    assert job is not None
    return job


async def waits(call):
    """Whether a call has no answer yet; it is given up."""
    try:
        await asyncio.wait_for(call, WAIT)
    except TimeoutError:
        return True
    return False


async def permit(pool, trial="t0"):
    """What a Tune trial does whose scheduler lets every trial go on."""
    news = await pool.explore(trial, 1)
    assert await waits(pool.explore(trial, news[0]))


def kinds(events):
    return [event.kind for event in events]


def test_a_trial_that_tune_has_not_begun_is_not_trained():
    async def scene(pool):
        assert await waits(pool.take(0, "g"))
        assert await pool.unfinished_trials() == {"t0": "ready"}
        assert await waits(pool.explore("t0", 0))
        assert await waits(pool.explore("t0", 0)), "a Tune trial that was restarted"
        assert (await taken(pool)).trial_id == "t0"
        assert await waits(pool.take(1, "h"))

    assert kinds(play_scene(scene)) == ["started"]


def test_an_epoch_waits_for_tune_and_is_then_charged():
    async def scene(pool):
        await taken(pool)
        asked = asyncio.create_task(pool.send(report("t0", 1, 1)))
        assert await pool.explore("t0", 1) == (2, epoch(1))
        await asyncio.sleep(WAIT)
        assert kinds(pool.seen) == ["started"], "the driver has not been asked"
        assert await waits(pool.explore("t0", 2)), "which permits it"
        assert await asked == GO_ON

    assert kinds(play_scene(scene)) == ["started", "epoch"]


def test_a_trial_that_tune_stops_keeps_its_epoch_and_trains_no_other():
    async def scene(pool):
        await taken(pool)
        asked = asyncio.create_task(pool.send(report("t0", 1, 1)))
        await asyncio.sleep(WAIT)
        await pool.leave("t0", STOPPED_BY_TUNE)
        assert await asked == Verdict(STOPPED_BY_TUNE)
        await pool.send(finished("t0", 1))
        await pool.leave("t0", "it is over, so nothing happens")

    events = play_scene(scene)
    assert [event.reason for event in events] == ["", STOPPED_BY_TUNE, STOPPED_BY_TUNE]


def test_a_trial_that_no_gang_has_is_over_when_its_tune_trial_fails():
    async def scene(pool):
        assert await waits(pool.explore("t0", 0))
        await pool.leave("t0", "its trial of Ray Tune failed")
        assert (await taken(pool, trial="t1")).trial_id == "t1"

    assert [event.trial_id for event in play_scene(scene, count=2)] == ["t1"]


def test_a_budget_that_says_no_ends_the_trial():
    async def scene(pool):
        await taken(pool)
        verdict, _ = await asyncio.gather(pool.send(report("t0", 1, 1)), permit(pool))
        assert verdict == Verdict("epsilon budget")
        await pool.send(finished("t0", 1))

    full = Verdict("epsilon budget")
    events = play_scene(
        scene, verdict=lambda event: full if event.kind == "epoch" else Verdict()
    )
    assert kinds(events) == ["started", "epoch", "finished"]
    assert events[-1].reason == "epsilon budget"


def test_a_tune_trial_of_a_slot_takes_one_trial_after_another():
    """Also after a restart, which gives it the same trial until that is over."""

    async def scene(pool):
        for explorer in ("slot 0", "slot 0", "slot 1"):
            assert await waits(pool.explore(explorer, 0))
        following = asyncio.create_task(pool.explore("slot 0", 1))
        for slot, trial in enumerate(("t0", "t1")):
            assert (await taken(pool, slot=slot, trial=trial)).trial_id == trial
        await pool.send(finished("t0", 1))
        assert (await taken(pool)).trial_id == "t2", "which no other had"
        asked = asyncio.create_task(pool.send(report("t2", 1, 1)))
        assert await following == (4, epoch(1))
        assert await waits(pool.explore("slot 0", 4)), "which permits it"
        assert (await asked).go_on
        assert await pool.explore("slot 2", 0) is None
        await pool.send(finished("t2", 1))
        assert await pool.explore("slot 0", 4) is None
        await pool.leave("slot 0", "it has none")
        await pool.leave("slot 1", "its trial of Ray Tune failed")
        assert not (await pool.send(report("t1", 1, 1))).go_on

    play_scene(scene, count=3)


def test_a_rebuilt_group_gets_its_trial_again_until_it_died_too_often():
    reason = "RuntimeError at step.py:7"

    async def scene(pool):
        await taken(pool, "g0")
        await pool.send(
            TrialEvent(kind="dying", trial_id="t0", attempt=1, reason=reason)
        )
        assert [(await taken(pool, f"g{i}")).attempt for i in range(1, 4)] == [2, 3, 4]
        await pool.send(
            TrialEvent(kind="dying", trial_id="t0", attempt=4, reason=reason)
        )
        assert await waits(pool.take(0, "g4"))

    events = play_scene(scene)
    assert kinds(events) == ["started"] * 4 + ["failed"]
    died = "its worker processes died"
    assert [event.reason for event in events] == [
        "",
        reason,
        died,
        died,
        f"{reason} (4 times)",
    ]


@pytest.mark.parametrize("own", [True, False])
def test_a_draw_is_not_tried_again_after_a_failure_of_its_own(own):
    """One worker says why it failed, the other that the first is gone."""
    gone, reason = (
        "MachineFailed: RuntimeError at distributed_c10d.py:7",
        "ValueError at own.py:7",
    )

    async def scene(pool):
        await taken(pool, "g0")
        for words in [gone, reason, gone] if own else [gone]:
            await pool.send(TrialEvent(kind="dying", trial_id="t0", reason=words))
        if own:
            assert await waits(pool.take(0, "g1"))
        else:
            assert (await taken(pool, "g1")).attempt == 2

    events = play_scene(scene, sealed=True)
    assert kinds(events) == ["started", "failed" if own else "started"]
    assert not own or events[-1].reason == f"{reason} (1 time)"


def test_an_older_attempt_is_not_listened_to():
    async def scene(pool):
        await taken(pool, "g0")
        await taken(pool, "g1")
        assert not (await pool.send(report("t0", 1, 1))).go_on
        await pool.send(finished("t0", 1))
        assert await pool.unfinished_trials() == {"t0": "running"}

    assert kinds(play_scene(scene)) == ["started", "started"]


def test_what_is_left_of_a_dead_group_takes_no_trial_from_its_successor():
    async def scene(pool):
        dead, alive = (asyncio.create_task(pool.take(0, g)) for g in ("g0", "g1"))
        assert await dead is None
        assert await waits(pool.explore("t0", 0))
        job = await alive
        assert (job and job.attempt) == 1

    assert kinds(play_scene(scene)) == ["started"]


def test_a_gang_beyond_the_limit_ends_after_its_trial():
    """Its workers' death changes nothing: the trial is its own until the end."""

    async def scene(pool):
        await taken(pool)
        await taken(pool, slot=1, trial="t1")
        late = asyncio.create_task(pool.take(2, "g"))
        await asyncio.gather(pool.send(report("t0", 1, 1, memory=7)), permit(pool))
        await pool.limit_slots(1)
        assert await late is None
        assert (await taken(pool, "again", slot=1)).trial_id == "t1"
        await pool.send(finished("t1", 2))
        await pool.add(jobs(3)[2])
        assert await waits(pool.explore("t2", 0))
        assert await pool.take(1, "again") is None
        await pool.send(finished("t0", 1))
        assert (await taken(pool, trial="t2")).trial_id == "t2"

    events = play_scene(scene, count=2)
    assert [event.memory for event in events if event.kind == "epoch"] == [7]


def test_a_closed_pool_ends_gangs_and_tune_trials():
    async def scene(pool):
        await taken(pool)
        idle = asyncio.create_task(pool.take(1, "g"))
        following = asyncio.create_task(pool.explore("t0", 1))
        await asyncio.sleep(WAIT)
        await pool.limit_slots(0)
        assert await idle is None
        assert await following is None
        assert await pool.explore("slot 0", 0) is None

    play_scene(scene, count=2)


def test_a_trial_that_the_driver_does_not_let_begin_is_over_at_once():
    async def scene(pool):
        assert await waits(pool.explore("t0", 0))
        assert await waits(pool.take(0, "g"))
        assert await pool.unfinished_trials() == {"t1": "ready"}

    events = play_scene(
        scene, count=2, verdict=lambda event: Verdict("no time is left")
    )
    assert kinds(events) == ["started"]

"""Stacks: which trials go together, and that permissions, ledger and ends stay each trial's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import space as spaces
from sweep.planning.prepare import prepare_space
from sweep.planning.stacks import sizes, stacked
from sweep.runtime import runner
from sweep.runtime.driver import Driver
from sweep.runtime.events import TrialEvent, TrialJob, Verdict
from sweep.spending.ledger import FILE, Ledger, furthest
from sweep.store.sweeps import SweepFolder
from tests.sweep import test_ray_broker, toy_trial
from tests.sweep.sweeps import TOY, settings_in, space_in
from tests.sweep.test_ray_broker import WAIT, played, taken
from tests.sweep.untracked import NoTracker
from trainables import stacked_trial
from trainables.communication import Alone
from trainables.errors import InvalidInput


@given(kinds=st.lists(st.sampled_from(["a", "b", ""]), max_size=20), at_most=st.integers(1, 5))
def test_every_job_is_there_once_with_its_like_and_stacks_are_even(
    kinds: list[str], at_most: int
) -> None:
    jobs = [TrialJob(trial_id=str(n), config={"k": k}, folder=Path()) for n, k in enumerate(kinds)]
    found = stacked(jobs, at_most=at_most, key_of=lambda job: job.config["k"] or None)
    assert sorted(int(job.trial_id) for job in found) == list(range(len(jobs)))
    groups: dict[str, list[TrialJob]] = {}
    for job in found:
        groups.setdefault(job.stack or job.trial_id, []).append(job)
    for members in groups.values():
        assert len({job.config["k"] for job in members}) == 1
        assert len(members) == 1 or members[0].config["k"]
    for kind in "ab":
        parts = [len(m) for m in groups.values() if m[0].config["k"] == kind]
        assert max(parts, default=0) <= at_most
        assert max(parts, default=0) - min(parts, default=0) <= 1
        assert len(parts) == -(-kinds.count(kind) // at_most)
    assert sum(sizes(found)) == sum(bool(job.stack) for job in found)


def test_a_job_of_several_processes_is_in_no_stack() -> None:
    jobs = [TrialJob(trial_id=n, config={}, folder=Path(), workers=2) for n in "ab"]
    assert sizes(stacked(jobs, at_most=2, key_of=lambda job: "same")) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resources": {"stack": 2}}, "expected workers: 1 with stack: 2"),
        (
            {"resources": {"stack": 2, "workers": 1, "executor": "per_trial"}},
            "expected executor gang or local with stack: 2",
        ),
        ({"resources": {"stack": 0}}, "expected auto or at least 1, got 0"),
        (
            {
                "resources": {"stack": 2, "workers": 1},
                "search": {"strategy": "tpe", "num_samples": 4},
            },
            "expected resources.stack 1 with an adaptive search",
        ),
    ],
)
def test_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        spaces.parse({"name": "s", **fields})


def _one_after_another(
    members: Sequence[stacked_trial.Member],
    *,
    data_dir: Path,
    cache_dir: Path,
    ended: Callable[[int, Any], None],
) -> None:
    """A stack of toys: same promises, no shared pass."""
    for number, member in enumerate(members):
        outcome: Any
        try:
            outcome = toy_trial.run(
                member.config,
                folder=member.folder,
                comm=Alone(),
                report=member.report,
                data_dir=data_dir,
                cache_dir=cache_dir,
            )
        except ValueError as error:
            outcome = error
        ended(number, outcome)


def _run(place: Path, monkeypatch: pytest.MonkeyPatch, *, stack: int) -> SweepFolder:
    place.mkdir()
    monkeypatch.setattr(runner, "tracking", lambda settings, **_: nullcontext(NoTracker()))
    monkeypatch.setattr(runner, "_stack_key", lambda job: job.config["engine"])
    monkeypatch.setattr(stacked_trial, "run_stacked", _one_after_another)
    resources = {"executor": "local", "workers": 1, "stack": stack}
    space = space_in(place, resources=resources)
    prepared = prepare_space(space, settings=settings_in(place))
    return runner.start(prepared, settings_in(place), function=TOY).folder


def test_members_are_permitted_paid_and_ended_each_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One member is stopped after its first epoch; the other's epochs, ledger and result are those
    of a sweep without stacks.
    """
    answer = Driver.__call__
    asked: list[tuple[str, str]] = []

    def stop_one(self: Driver, event: TrialEvent) -> Verdict:
        asked.append((event.kind, event.trial_id))
        trial = self._folder.plan().trials[1].id
        if event.kind == "epoch" and event.trial_id == trial:
            event = TrialEvent(**{**vars(event), "reason": "stopped"})
        return answer(self, event)

    monkeypatch.setattr(Driver, "__call__", stop_one)
    together = _run(tmp_path / "together", monkeypatch, stack=2)
    _, first, second = (trial.id for trial in together.plan().trials)
    order = [(kind, name) for kind, name in asked if name in (first, second)]
    assert order[:2] == [("started", first), ("started", second)]  # before any epoch of either
    assert [r.status for r in together.records()] == ["done", "stopped", "done"]
    alone = _run(tmp_path / "alone", monkeypatch, stack=1)
    for one, other in zip(together.records(), alone.records(), strict=True):
        assert one.metrics["ser"] == other.metrics["ser"]
        assert one.epochs_done == other.epochs_done
    paid = [
        sorted(
            (e.attempt, e.first_epoch, e.epochs)
            for e in furthest(Ledger(folder.path.parent / FILE).entries())
        )
        for folder in (together, alone)
    ]
    assert paid[0] == paid[1]
    assert "stack of 2" in together.records()[2].notes[-1]
    assert not alone.records()[2].notes


def test_members_of_a_stack_whose_workers_died_go_on_anywhere() -> None:
    def stack_of(count: int) -> list[TrialJob]:
        return [
            TrialJob(trial_id=f"t{n}", config={}, folder=Path(), stack="s") for n in range(count)
        ]

    async def scene(broker: Any, seen: list[TrialEvent]) -> None:
        first = await taken(broker)
        mates = await broker.mates("s", first.job.trial_id)
        assert [m.job.trial_id for m in mates] == ["t1", "t2"]
        await broker.finish("t2", 1, test_ray_broker.result("t2"))
        again = await taken(broker, "h")  # the rebuilt gang has its own trial again
        assert (again.job.trial_id, again.attempt) == ("t0", 2)
        other = await taken(broker, "g", "another slot")
        assert (other.job.trial_id, other.attempt) == ("t1", 2)
        assert await broker.take("third", "g", wait=WAIT) is None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_ray_broker, "jobs", stack_of)
        played(scene, count=3)

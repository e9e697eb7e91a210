"""What people are told while a sweep runs: how much is done, how long the rest will take, and why
a trial failed.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sweep.planning.prepare import prepare_space
from sweep.results.progress import Progress
from sweep.runtime.live import View, lines, num_expected
from sweep.store.status import TrialStatus
from tests.sweep.sweeps import settings_in, space_in


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


PLANNED = Progress(name="a", status=TrialStatus.PLANNED, epochs_done=0, epochs=4)
RUNNING = replace(PLANNED, status=TrialStatus.RUNNING)


def after(epochs: int, name: str = "a") -> Progress:
    return replace(RUNNING, name=name, epochs_done=epochs, validation=("SER", 0.5))


def test_trials_that_a_search_has_yet_to_choose_take_time_too(clock: Clock) -> None:
    view = View("toy", num_expected=10, clock=clock)
    view.tell("a", RUNNING)
    clock.now += 20
    view.tell("a", after(2))
    # 2 of 40 epochs in 20 s: 38 are left.
    assert view.summary() == "0 of 10 done, about 6 min 20 s left"
    view.tell("a", replace(after(4), status=TrialStatus.DONE))
    clock.now += 20
    assert view.summary() == "1 of 10 done, about 6 min 00 s left"


def test_what_passes_before_the_first_trial_is_not_the_trials_pace(clock: Clock) -> None:
    view = View("toy", clock=clock)
    view.tell("a", PLANNED)
    clock.now += 100  # Ray starts
    view.tell("a", RUNNING)
    clock.now += 10
    view.tell("a", after(1))
    assert view.summary() == "0 of 1 done, about 30 s left"


def test_epochs_of_an_earlier_run_are_not_this_ones_pace(clock: Clock) -> None:
    view = View("toy", clock=clock)
    view.tell("a", replace(after(4), status=TrialStatus.DONE))
    view.tell("b", replace(PLANNED, epochs_done=2))
    view.tell("b", replace(RUNNING, epochs_done=2))
    assert view.summary() == "1 of 2 done"
    clock.now += 10
    view.tell("b", after(3))
    assert view.summary() == "1 of 2 done, about 10 s left"
    view.tell("b", replace(after(4), status=TrialStatus.DONE))
    assert view.summary() == "2 of 2 done"


def test_a_search_is_expected_to_run_its_seeds_and_its_baselines(tmp_path: Path) -> None:
    grid = space_in(tmp_path)
    plan = prepare_space(grid, settings=settings_in(tmp_path)).plan
    assert num_expected(grid, plan) == 3
    asked = replace(plan, to_choose=5)
    assert num_expected(grid, asked) == 1 + 5
    twice = grid.model_copy(update={"repeats": (0, 1)})
    assert num_expected(twice, asked) == 1 + 10
    short = twice.budget.model_copy(update={"trials": 7})
    assert num_expected(twice.model_copy(update={"budget": short}), asked) == 7


def test_off_a_terminal_a_line_tells_now_and_then_how_it_goes(clock: Clock) -> None:
    out = io.StringIO()
    tell = lines(
        View("toy", num_expected=3, clock=clock), Console(file=out, width=140), clock=clock
    )
    tell("old", replace(after(4, "old"), status=TrialStatus.DONE))
    assert out.getvalue() == "", "it ended before this process began"
    tell("a", RUNNING)
    for epoch in (1, 2, 3):
        clock.now += 25
        tell("a", after(epoch))
    tell("a", replace(RUNNING, status=TrialStatus.DONE, epochs_done=4))
    tell("a", replace(RUNNING, status=TrialStatus.DONE, epochs_done=4))
    assert out.getvalue().splitlines() == [
        "running: a (3 of 4 epochs, validation SER 0.5); 1 of 3 done, about 2 min 05 s left",
        "done: a (4 of 4 epochs, validation SER 0.5); 2 of 3 done, about 1 min 15 s left",
    ]


def test_a_failed_trials_line_says_why(clock: Clock) -> None:
    out = io.StringIO()
    tell = lines(View("toy", clock=clock), Console(file=out, width=140), clock=clock)
    tell("a", RUNNING)
    tell("a", replace(PLANNED, status=TrialStatus.FAILED, reason="no room left"))
    assert out.getvalue() == "failed: a (0 of 4 epochs): no room left; 1 of 1 done\n"

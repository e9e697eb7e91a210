"""Time adds up over trials, resumes and what a trial measures after its last epoch."""

from __future__ import annotations

import pytest

from sweep.spending.budget import TimeSpent


def test_wall_clock_continues_from_earlier_runs() -> None:
    now = [50.0]
    spent = TimeSpent(before=99.0, clock=lambda: now[0])
    assert spent.seconds == 99.0
    now[0] = 62.5
    assert spent.seconds == 111.5
    now[0] = 0.0
    fresh = TimeSpent(clock=lambda: now[0])
    assert fresh.seconds == fresh.accelerator_hours == 0.0


def test_gpu_hours_are_those_that_trials_hold() -> None:
    """A trial without a GPU counts none; earlier runs of a trial count, and count once."""
    spent = TimeSpent(of_trials={"a": 3600.0, "b": 1800.0}, gpus={"a": 2.0})
    assert spent.accelerator_hours == 2.0
    spent.expect("c", gpus=0.5)
    spent.add("c", 7200.0)
    assert spent.accelerator_hours == 3.0
    spent.add("b", 1e6)
    assert spent.accelerator_hours == 3.0
    spent.add("a", 1800.0)
    assert spent.accelerator_hours == 4.0


@pytest.mark.parametrize(("whole", "hours"), [(5400.0, 1.5), (3600.0, 1.0), (10.0, 1.0)])
def test_time_outside_of_epochs_counts_too(whole: float, hours: float) -> None:
    """Measuring after the epochs is added; a clock that went back takes nothing away."""
    spent = TimeSpent(of_trials={"a": 3600.0}, gpus={"a": 1.0, "new": 1.0})
    spent.add_rest("a", whole)
    assert spent.accelerator_hours == hours
    spent.add_rest("a", whole)
    assert spent.accelerator_hours == hours
    spent.add_rest("new", 1800.0)
    assert spent.accelerator_hours == hours + 0.5

"""The early stopping that Tune is given: what its schedulers decide for made validation errors."""

from __future__ import annotations

from typing import Any

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from sweep.runtime.events import RunSettings
from sweep.runtime.on_ray.tune import TIME_ATTR, scheduler

METRIC = RunSettings().metric


def decisions(chosen: TrialScheduler, errors: dict[str, list[float]]) -> dict[str, int | None]:
    """The epoch at which each trial is stopped; None where it is not. The trials take turns."""
    trials = {name: Trial("toy", stub=True) for name in errors}
    ended: dict[str, int | None] = dict.fromkeys(errors)
    for trial in trials.values():
        chosen.on_trial_add(None, trial)  # type: ignore[arg-type]  # no controller is needed
    for epoch in range(1, max(map(len, errors.values())) + 1):
        for name, trial in trials.items():
            if ended[name] is None and epoch <= len(errors[name]):
                result: dict[str, Any] = {TIME_ATTR: epoch, METRIC: errors[name][epoch - 1]}
                answer = chosen.on_trial_result(None, trial, result)  # type: ignore[arg-type]
                if answer == TrialScheduler.STOP:
                    ended[name] = epoch
    return ended


ERRORS = {name: [error] * 9 for name, error in (("a", 0.1), ("b", 0.2), ("c", 0.8), ("d", 0.9))}


def test_asha_stops_the_worse_trials_and_none_before_the_grace_epochs() -> None:
    settings = RunSettings(scheduler="asha", grace_epochs=3, max_epochs=9)
    found = decisions(scheduler(settings), ERRORS)
    assert found["a"] in (None, 9)
    assert {found["c"], found["d"]} == {3}


@pytest.mark.parametrize("kind", ["asha", "median", "none"])
def test_a_grace_longer_than_every_trial_stops_none(kind: Any) -> None:
    """Such as `--epochs 1` in a table whose grace period is two epochs."""
    settings = RunSettings(scheduler=kind, grace_epochs=3, max_epochs=2)
    two_epochs = {name: errors[:2] for name, errors in ERRORS.items()}
    assert decisions(scheduler(settings), two_epochs) == dict.fromkeys(ERRORS)


def test_without_a_scheduler_no_trial_is_stopped() -> None:
    assert decisions(scheduler(RunSettings()), ERRORS) == dict.fromkeys(ERRORS)

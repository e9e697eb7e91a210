"""Schedulers of Ray Tune that stop trials early, by the epochs of a whole sweep.

Tune's schedulers compare the trials of one run of Tune. These begin with the epochs
that the sweep has on disk, so that a resumed sweep stops the trials that it would have
stopped uninterrupted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    MedianStoppingRule,
    TrialScheduler,
)

from sweep.runtime.events import PastEpoch, RunSettings
from sweep.runtime.tune_trial import TIME_ATTR, name_of

_REDUCTION_FACTOR = 3  # one trial in three survives a rung


def scheduler(settings: RunSettings, past: Sequence[PastEpoch] = ()) -> TrialScheduler:
    """Tune's scheduler for `settings.scheduler`, on the validation metric after each
    epoch, in the state after the epochs of the `past`, in their order.
    """
    common = {"time_attr": TIME_ATTR, "metric": settings.metric, "mode": "min"}
    if settings.scheduler == "asha":
        found = _Asha(
            **common,
            # Ray refuses a grace period longer than the longest trial; there nothing is
            # stopped.
            max_t=max(settings.max_epochs, settings.grace_epochs),
            grace_period=settings.grace_epochs,
            reduction_factor=_REDUCTION_FACTOR,
        )
    elif settings.scheduler == "median":
        found = _Median(**common, grace_period=settings.grace_epochs)
    else:
        return FIFOScheduler()
    for each in past:
        found.remember(each)
    return found


class _EachEpochOnce:
    """Gives a scheduler of Tune each epoch of a trial of the sweep once: also where the
    trial is reported again after a crash, and where another run of Tune has had its
    first epochs. What Tune reports at a trial's end it has reported before.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._first: dict[str, Any] = {}  # the trial of Tune that stands for a sweep's
        self._epochs: dict[str, int] = {}

    def remember(self, epoch: PastEpoch) -> None:
        """Take an epoch of an earlier run, whose trial went on or was stopped then."""
        if epoch.trial_id not in self._first:
            self._first[epoch.trial_id] = Trial("past", stub=True)
            super().on_trial_add(_NO_CONTROLLER, self._first[epoch.trial_id])  # type: ignore[misc]
        # A figure that is no number is not there.
        values = {n: math.nan if v is None else v for n, v in epoch.metrics.items()}
        self._decide(
            _NO_CONTROLLER, epoch.trial_id, {**values, TIME_ATTR: epoch.epochs_done}
        )
        self._forget_stop(self._first[epoch.trial_id])

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Add a trial, unless it has epochs already."""
        if self._first.setdefault(name_of(trial.config), trial) is trial:
            super().on_trial_add(tune_controller, trial)  # type: ignore[misc]

    def on_trial_result(
        self, tune_controller: Any, trial: Any, result: Mapping[str, Any]
    ) -> Any:
        """The decision about a trial after an epoch."""
        return self._decide(tune_controller, name_of(trial.config), result)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: Any) -> None:
        """Keep the epochs of the trial, and count none of them again."""

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Keep the epochs of the trial."""

    def _decide(
        self, tune_controller: Any, name: str, result: Mapping[str, Any]
    ) -> Any:
        if result.get(TIME_ATTR, 0) <= self._epochs.get(name, 0):
            return TrialScheduler.CONTINUE  # as was decided then
        self._epochs[name] = result[TIME_ATTR]
        return super().on_trial_result(  # type: ignore[misc]
            tune_controller, self._first[name], result
        )

    def _forget_stop(self, trial: Any) -> None:
        """A decision about the past changes nothing."""


class _Asha(_EachEpochOnce, ASHAScheduler):  # type: ignore[misc]  # ray is untyped here
    pass


class _Median(_EachEpochOnce, MedianStoppingRule):  # type: ignore[misc]
    def _forget_stop(self, trial: Any) -> None:
        self._stopped_trials.discard(trial)


_NO_CONTROLLER = SimpleNamespace(
    get_live_trials=list
)  # the rule asks whether others wait

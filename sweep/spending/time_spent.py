"""Wall-clock and GPU time of a sweep, over all its resumes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


class TimeSpent:
    """`before`: wall-clock seconds of earlier runs. `of_trials`: seconds that each trial has
    trained. `gpus`: GPUs (or the share of one) of each trial; 0 for a missing trial.
    """

    def __init__(
        self,
        *,
        before: float = 0.0,
        of_trials: Mapping[str, float] | None = None,
        gpus: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._before = before
        self._clock = clock
        self._started = clock()
        self._of_trials: dict[str, float] = {}
        self._gpus = dict(gpus or {})
        self._gpu_seconds = 0.0
        for trial_id, seconds in (of_trials or {}).items():
            self.add(trial_id, seconds)

    @property
    def seconds(self) -> float:
        """Wall-clock of the sweep so far, earlier runs included."""
        return self._before + self._clock() - self._started

    @property
    def accelerator_hours(self) -> float:
        """GPU hours of the trials so far; 0 without GPUs."""
        return self._gpu_seconds / 3600

    def expect(self, trial_id: str, *, gpus: float) -> None:
        """Register a further trial with its GPUs."""
        self._gpus[trial_id] = gpus

    def add(self, trial_id: str, seconds: float) -> None:
        """Add `seconds` of training of a trial."""
        self._of_trials[trial_id] = self._of_trials.get(trial_id, 0.0) + seconds
        self._gpu_seconds += seconds * self._gpus.get(trial_id, 0.0)

    def add_rest(self, trial_id: str, whole: float) -> None:
        """Extend a trial's time to `whole` seconds in total, measuring included."""
        self.add(trial_id, max(0.0, whole - self._of_trials.get(trial_id, 0.0)))

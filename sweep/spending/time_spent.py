"""Wall-clock and GPU time that a sweep has had, over all its resumes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


class TimeSpent:
    """`before`: seconds of wall-clock in earlier runs. `of_trials`: seconds that each trial has
    trained. `gpus`: how many GPUs (or which share of one) each trial holds; a trial that is not in
    it counts none.
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
        """Hours of one GPU that the trials have had so far; 0 without GPUs."""
        return self._gpu_seconds / 3600

    def expect(self, trial_id: str, *, gpus: float) -> None:
        """A further trial, with the GPUs that it will hold."""
        self._gpus[trial_id] = gpus

    def add(self, trial_id: str, seconds: float) -> None:
        """A trial has trained for `seconds` more."""
        self._of_trials[trial_id] = self._of_trials.get(trial_id, 0.0) + seconds
        self._gpu_seconds += seconds * self._gpus.get(trial_id, 0.0)

    def add_rest(self, trial_id: str, whole: float) -> None:
        """A trial has taken `whole` seconds in all, measuring included."""
        self.add(trial_id, max(0.0, whole - self._of_trials.get(trial_id, 0.0)))

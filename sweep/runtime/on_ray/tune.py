"""The Tune side of a sweep: one light trial per job, which represents its workers at the scheduler.

The Tune trial trains nothing. It takes each report of its workers from the broker, passes it to
`ray.tune.report`, and acknowledges it when that has returned, that is, when the scheduler permits
the trial to continue. Its actor is reused by the next trial, which costs hundredths of a second.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import ray
from ray import tune
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    MedianStoppingRule,
    TrialScheduler,
)
from ray.tune.search import Searcher

from sweep.runtime.broker import News
from sweep.runtime.events import RunSettings
from sweep.runtime.on_ray.session import NAMESPACE, TRIAL_SLOT

TIME_ATTR = "epoch"  # never training_iteration: that counts again from 1 after a resume
_POLL_SECONDS = 5.0


def speak_for_workers(config: dict[str, Any]) -> None:
    """The Tune trial of the job `config["trial"]` at the broker `config["broker"]`. It ends with
    the broker.
    """
    with suppress(ray.exceptions.ActorDiedError):
        try:
            broker = ray.get_actor(config["broker"], namespace=NAMESPACE)
        except ValueError:
            return
        _speak(broker, config["trial"])


def _speak(broker: Any, trial_id: str) -> None:
    ray.get(broker.enter.remote(trial_id))
    seen = passed = 0
    while True:
        news: News | None = ray.get(broker.news.remote(trial_id, seen, wait=_POLL_SECONDS))
        if news is None:
            continue
        if news.over:
            return
        seen = news.serial
        # After a crash an epoch is reported once more; schedulers expect time to move.
        if news.report is not None and news.report.epochs_done > passed:
            passed = news.report.epochs_done
            tune.report({**news.report.metrics, TIME_ATTR: passed})
        ray.get(broker.acknowledge.remote(trial_id, seen))


class _Notice(TrialProgressCallback):  # type: ignore[misc]  # ray is untyped here
    """Notifies the broker from the driver that a Tune trial ended, whose actor may be dead already.
    It replaces Tune's callback that prints the trials on stdout.
    """

    def __init__(self, broker: Any) -> None:
        super().__init__()
        self._broker = broker

    def on_trial_result(self, *args: Any, **info: Any) -> None:
        """Print nothing, because the driver shows a table."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """End a trial that the scheduler stopped; no effect where its workers had finished."""
        self._broker.leave.remote(trial.config["trial"], stopped=True)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """End a trial whose actor died too often."""
        self._broker.leave.remote(trial.config["trial"], stopped=False)


class JobSearcher(Searcher):  # type: ignore[misc]  # ray is untyped here
    """Ray's searcher interface to an external search: passes on the trials announced in `queue`,
    until None comes.

    That search reads results from the sweep's folder, not from Tune.
    """

    def __init__(self, queue: SimpleQueue[str | None]) -> None:
        super().__init__()
        self._queue = queue
        self._live: set[str] = set()
        self._over = False

    def suggest(self, trial_id: str) -> Any:
        """The config of the next announced trial; waits where Tune is idle."""
        if self._over:
            return Searcher.FINISHED
        try:
            announced = self._queue.get(block=not self._live)
        except Empty:
            return None
        if announced is None:
            self._over = True
            return Searcher.FINISHED
        self._live.add(trial_id)
        return {"trial": announced}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Ignore the result."""
        self._live.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Write an empty file, because Tune has no state to restore."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Never called: a sweep is resumed from its own folder."""

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __deepcopy__(self, memo: dict[int, Any]) -> JobSearcher:
        return self


def run_tuner(
    trial_ids: Sequence[str],
    *,
    announced: SimpleQueue[str | None] | None,
    broker: Any,
    broker_name: str,
    at_a_time: int,
    settings: RunSettings,
    folder: Path,
) -> None:
    """Run one Tune trial per job until all are over; `announced` brings the names of all jobs in
    place of `trial_ids`, and None when there are no more. `folder` takes Tune's own files.
    """
    # Errors are reported by the broker's events, or by the exceptions of this function.
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    space: dict[str, Any] = {"broker": broker_name}
    if announced is None:
        space["trial"] = tune.grid_search(list(trial_ids))
    tuner = tune.Tuner(
        tune.with_resources(speak_for_workers, trial_resources()),
        param_space=space,
        tune_config=tune.TuneConfig(
            search_alg=None if announced is None else JobSearcher(announced),
            num_samples=1 if announced is None else -1,
            scheduler=scheduler(settings),
            reuse_actors=True,
            max_concurrent_trials=at_a_time,
            trial_name_creator=_name,
            trial_dirname_creator=_name,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder),
            failure_config=tune.FailureConfig(max_failures=settings.max_failures),
            callbacks=[_Notice(broker)],
            verbose=0,
        ),
    )
    tuner.fit()


def trial_resources() -> dict[str, float]:
    """The resources of a Tune trial: a custom token, or one byte where a cluster has none."""
    if TRIAL_SLOT in ray.cluster_resources():
        return {TRIAL_SLOT: 1}
    return {"memory": 1}


def scheduler(settings: RunSettings) -> TrialScheduler:
    """Tune's scheduler for `settings.scheduler`, on the validation metric after each epoch."""
    common = {"time_attr": TIME_ATTR, "metric": settings.metric, "mode": settings.mode}
    if settings.scheduler == "asha":
        return ASHAScheduler(
            **common,
            # Ray refuses a grace period longer than the longest trial; there nothing is stopped.
            max_t=max(settings.max_epochs, settings.grace_epochs),
            grace_period=settings.grace_epochs,
            reduction_factor=settings.reduction_factor,
        )
    if settings.scheduler == "median":
        return MedianStoppingRule(**common, grace_period=settings.grace_epochs)
    return FIFOScheduler()


def _name(trial: Any) -> str:
    return str(trial.config["trial"])

"""The messages between a sweep and its executor: jobs, events and verdicts.

Plain frozen data and no Ray: the store, MLflow, the budget and the live table stand on
one side, the executors (`local`, `tune`) on the other.

The order of one epoch, which makes budgets exact:

    worker  trains epoch t, writes its checkpoint, reports and WAITS
    Tune    a scheduler, if any, may stop the trial
    driver  writes the epoch and returns a `Verdict`; a positive one has charged the next epoch
    worker  gets the acknowledgement = the permission to spend epoch t + 1

After a crash a trial function resumes from its checkpoint and reports the checkpoint's
epoch once more before it trains the next one. An `epoch` event may therefore come twice
for one `epochs_done` (with a larger `attempt`), and recording it must be idempotent in
(trial_id, epochs_done).
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from search_spaces.parts import Resources
from trainables.config.trial import TrialConfig
from trainables.errors import MachineFailed, SweepError
from trainables.result import EpochReport, TrialResult

TRIAL_FUNCTION = "trainables.trial:run"
MAX_FAILURES = 3  # deaths of workers that a trial survives
DIED = "its worker processes died"


@dataclass(frozen=True, kw_only=True)
class TrialJob:
    """One trial to run. `folder` is on storage that the driver and every worker share;
    `point` has the values of the space's axes by their paths, for Ray Tune. Workers get
    it with the number of their `attempt`, from 1 within one call of `run_trials`, which
    resumes from a checkpoint where `epochs_done` is not 0. `owner` is the sweep, which
    its checkpoints name.
    """

    trial_id: str
    config: TrialConfig
    folder: Path
    point: Mapping[str, Any] = field(default_factory=dict, compare=False)
    attempt: int = 1
    epochs_done: int = 0
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class PastEpoch:
    """An epoch that a sweep has on disk; a metric that is no number is None."""

    trial_id: str
    epochs_done: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class TrialEvent:
    """Something that happened to an attempt of a trial.

    started   a group of workers takes the trial; the verdict says whether it may begin; `reason` is
              why the attempt before it ended, empty for the first
    epoch     `report` is set; the verdict says whether the next epoch may be spent. With a `reason`
              the scheduler has stopped the trial: the epoch is written, no further one is charged;
              `memory` is the largest number of bytes that its worker has taken, 0: unknown
    finished  `result` is set; `reason` is why it stopped early, empty where it did not
    failed    `reason` is one line without private text; earlier reports are kept. One that begins
              with StorageFailed is a failure of the disk: the trial is paused and
              resumed later; `is_of_machine` tells whether another one is the trial's
              own
    dying     for the pool alone: why a worker is about to exit, the reason of a trial that is not
              tried again
    """

    kind: Literal["started", "epoch", "finished", "failed", "dying"]
    trial_id: str
    attempt: int = 1
    report: EpochReport | None = None
    result: TrialResult | None = None
    reason: str = ""
    memory: int = field(default=0, compare=False)


def is_of_machine(reason: str) -> bool:
    """Whether a failure is one of what the trial ran on. Any other is an outcome of the
    trial: of its records, its noise and its code.
    """
    return reason.startswith((MachineFailed.__name__, DIED))


@dataclass(frozen=True)
class Verdict:
    """The driver's answer to an event: the `reason` why the trial may spend no other
    epoch, empty where it may. `epochs_done`: epochs in the checkpoint from which a new
    attempt resumes.
    """

    reason: str = ""
    epochs_done: int = field(default=0, compare=False)

    @property
    def go_on(self) -> bool:
        """Whether the trial may spend another epoch."""
        return not self.reason


GO_ON = Verdict()
Events = Callable[[TrialEvent], Verdict]
# Events that wait, each with the call that takes its verdict.
EventStream = Generator[tuple[TrialEvent, Callable[[Verdict], object]], None, None]


class RunSettings(Resources):
    """The settings of execution. They change neither the result nor the id of a
    trial.
    """

    workers: int | None = 1
    # Logical ones of every trial, where one worker group must serve all.
    shared_workers: int | None = None
    # Of a running Ray cluster; None: a local one, ended afterwards.
    address: str | None = None
    scheduler: Literal["none", "asha", "median"] = "none"
    # The scheduler's, from EpochReport.metrics; less is better.
    metric: str = "validation_ser"
    grace_epochs: int = 1  # the scheduler stops no trial before this many epochs
    max_epochs: int = 1_000  # the scheduler's horizon
    function: str = TRIAL_FUNCTION  # "module:name" of the trial function
    data_dir: Path = Path("data")
    cache_dir: Path = Path(".cache")
    # The number of trials is secret: nothing of Ray's may depend on it.
    sealed: bool = False
    # Ray's dashboard, which Tune needs to free trials that were stopped early.
    dashboard: bool = True


class RayFailed(SweepError):
    """Ray, or a daemon of it, has failed; what is on the disk is whole."""


class Interrupted(KeyboardInterrupt):
    """The sweep was interrupted (Ctrl-C, SIGTERM); workers have stopped, `resume`
    continues it.
    """

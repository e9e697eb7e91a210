"""One trial from its configuration to its result: the function that a sweep calls."""

from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path

from trainables import catalogue
from trainables.config.trial import TrialConfig
from trainables.result import EpochReport, TrialResult
from trainables.system.communication import Communicator


def run(
    config: TrialConfig,
    *,
    folder: Path,
    comm: Communicator,
    report: Callable[[EpochReport], bool],
    data_dir: Path,
    cache_dir: Path,
) -> TrialResult:
    """Train and measure one trial; every process of its group makes this call.

    `folder` is the trial's folder (checkpoint, weights, signals); a checkpoint there is
    resumed. `report` is called on rank 0 after every epoch and returns whether the next
    epoch may be spent. `data_dir` holds the corpora, `cache_dir` data derived from
    them.

    Raises: InvalidInput for a config or data that cannot be used, TrialFailed where it
    failed.
    """
    task = catalogue.entry("tasks", config.task)
    # In a context of its own, so that its phase's folder ends with it.
    result: TrialResult = copy_context().run(
        task.run,
        config,
        folder=folder,
        comm=comm,
        report=report,
        data_dir=data_dir,
        cache_dir=cache_dir,
    )
    return result

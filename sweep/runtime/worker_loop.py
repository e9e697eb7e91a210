"""The loop of a group of worker processes: take a trial, run it together, report its
end, repeat.

Every executor uses this loop. The trial function (`RunSettings.function`) is
`trainables.trial.run` or a substitute with its parameters. Every rank calls it. It
resumes from the checkpoint in `folder`, writes a checkpoint before it calls `report`,
follows rank 0's answer (False: train no further epoch, measure and return), and draws
no randomness from global generators.
"""

from __future__ import annotations

import gc
import itertools
import pkgutil
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.runtime.events import RunSettings, TrialEvent, TrialJob, Verdict
from trainables.errors import InvalidData, MachineFailed, SweepError, TrialFailed
from trainables.io import disk
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint
from trainables.system.communication import Alone, Communicator
from trainables.system.memory import peak_memory

if TYPE_CHECKING:
    import torch

    from sweep.runtime.torch_group import TorchTeam


class LoneTeam:
    """A single process. As any team, it has `control` for the loop and `trial` for
    trials.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.control: Communicator = Alone(device)
        self.trial = self.control

    def regroup(self) -> None:
        """Do nothing for a single process."""


# Errors by their names, because PyTorch is not imported here.
_OF_MACHINE = frozenset(
    {"MemoryError", "OutOfMemoryError", "ConnectionError", "DistError"}
) | {each.__name__ for each in (InvalidData, MachineFailed)}
# Of the CPU: a RuntimeError.
_NO_MEMORY = ("can't allocate memory", "Cannot allocate memory")
_COLLECTIVES = "distributed_c10d.py"  # where the other workers learn that one is gone

Take = Callable[[], TrialJob | None]
Send = Callable[[TrialEvent], Verdict]


def work(
    take: Take, send: Send, team: LoneTeam | TorchTeam, settings: RunSettings
) -> None:
    """Run trials until there are none left. On rank 0 `take` waits for the next one,
    None: there will be none. `send` waits for the answer to what happened, of an epoch
    the permission to train another; any rank may say that it is dying.

    A trial that raises on every rank is reported as failed and the loop continues. One
    that raises on some ranks only leaves the others waiting, so the exception ends this
    process and the group is rebuilt.
    """
    # modules and the plan: to scan them after each trial costs tenths of a second
    gc.freeze()
    try:
        for number in itertools.count():
            taken = take() if team.control.rank == 0 else None
            job: TrialJob | None = team.control.broadcast(taken)
            if job is None:
                return
            before = checkpoint.OWNER.set(job.owner)
            _run_one(job, send, team, settings)
            checkpoint.OWNER.reset(before)
            gc.collect()
            # What the first trial has imported, then the records of trials.
            if number % 100 == 0:
                gc.freeze()
    finally:
        gc.unfreeze()


def _run_one(
    job: TrialJob, send: Send, team: LoneTeam | TorchTeam, settings: RunSettings
) -> None:
    leads = team.control.rank == 0
    event = partial(TrialEvent, trial_id=job.trial_id, attempt=job.attempt)

    def report(epoch: EpochReport) -> bool:
        return (
            leads
            and send(event(kind="epoch", report=epoch, memory=peak_memory())).go_on
        )

    try:
        run: Callable[..., TrialResult] = pkgutil.resolve_name(settings.function)
        if job.epochs_done and not checkpoint.exists(job.folder):
            # A restart from epoch 0 would train epochs that were not charged.
            raise MachineFailed(
                f"expected the checkpoint of epoch {job.epochs_done} to continue from,"
                " got none: it was lost after the trial began"
            )
        result = run(
            job.config,
            folder=job.folder,
            comm=team.trial,
            report=report,
            data_dir=settings.data_dir,
            cache_dir=settings.cache_dir,
        )
        end = event(kind="finished", result=result)
    except Exception as error:  # noqa: BLE001  whatever a trial raises becomes a recorded reason
        reason = one_line(
            disk.failure_of(error, job.folder) or machine_failure_of(error) or error
        )
        end = event(kind="failed", reason=reason)
        send(event(kind="dying", reason=reason))
        try:
            team.regroup()
        except Exception:  # noqa: BLE001  named by its reason, without text of the trial's data
            raise TrialFailed(
                f"the workers of trial {job.trial_id} could not regroup: {reason}"
            ) from None
    if leads:
        send(end)


def machine_failure_of(error: Exception) -> MachineFailed | None:
    """The failure of the machine behind an exception of a trial: no memory, another
    worker that is gone, a file that is missing or damaged. None for the trial's own.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    frames = traceback.extract_tb(error.__traceback__)
    is_of_peer = bool(frames) and Path(frames[-1].filename).name == _COLLECTIVES
    lacks_memory = any(words in str(error) for words in _NO_MEMORY)
    if isinstance(error, MachineFailed):
        return error
    if kinds & _OF_MACHINE or is_of_peer or lacks_memory:
        return MachineFailed(one_line(error))
    return None


def one_line(error: BaseException) -> str:
    """The reason of a failure, in a line without private text.

    This project's errors never quote private text, so their message is kept. Of other
    errors only the type and the place that raised it are kept.

    >>> one_line(TrialFailed("expected finite weights"))
    'TrialFailed: expected finite weights'
    """
    name = type(error).__name__
    if isinstance(error, SweepError):
        return f"{name}: {' '.join(str(error).split())}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return name
    return f"{name} at {Path(frames[-1].filename).name}:{frames[-1].lineno}"

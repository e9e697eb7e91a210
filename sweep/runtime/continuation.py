"""Continuation of stopped trials from their checkpoints; the additional epochs are charged."""

from __future__ import annotations

from collections.abc import Sequence

from sweep.spending.gate import SpendGate
from sweep.store.plans import PlannedTrial
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput
from trainables.system import checkpoint


def require_stopped(folder: SweepFolder, trial_ids: Sequence[str]) -> list[PlannedTrial]:
    """The plans of trials (by ids or prefixes of them) that can be continued.

    Raises: InvalidInput for one that was not stopped, or whose checkpoint is missing.
    """
    found = {}
    for trial_id in trial_ids:
        trial = folder.plan_of(trial_id)
        record = folder.record(trial, running=False)
        if record.status is not TrialStatus.STOPPED:
            raise InvalidInput(
                f"expected --continue with a trial that was stopped, got {trial.id},"
                f" which is {record.status}"
            )
        if not checkpoint.is_there(folder.trial_folder(trial.id)):
            raise InvalidInput(f"trial {trial.id} has no checkpoint to continue from")
        found[trial.id] = trial
    return list(found.values())


def reopen(folder: SweepFolder, gate: SpendGate, trials: Sequence[PlannedTrial]) -> None:
    """Make stopped trials unfinished again; the earlier result of each is kept.

    Raises: InvalidInput, with nothing changed, where a budget does not permit another epoch of one.
    """
    for trial in trials:
        rows = folder.epochs(trial.id)
        done = int(rows[-1]["epochs_done"]) if rows else 0
        reason = gate.continuation_refusal(trial.id, epochs_done=done)
        if reason is not None:
            raise InvalidInput(f"trial {trial.id} cannot continue: {reason}")
    for trial in trials:
        folder.reopen_trial(trial.id)
        gate.reopen(trial.id)

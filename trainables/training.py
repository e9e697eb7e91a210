"""The training loop that every task shares: epochs of steps, validation, checkpoints,
permission.

It is independent of the model and of the caller. Before each epoch after the first the
caller's `report` must return True, because an epoch spends privacy; starting the trial
permits the first.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import torch

from trainables.config.sections import TrainingConfig
from trainables.dp.seeding import stream_seed
from trainables.result import EpochReport
from trainables.system import checkpoint, memory
from trainables.system.communication import Communicator


class EpochEngine(Protocol):
    """The interface of engines for the loop (see `engines.engine.Engine`)."""

    def run_epoch(self, epoch: int) -> dict[str, float]:
        """All steps of an epoch; its figures."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The state from which another process can resume."""

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Restore a `state_dict`."""


class Learner(Protocol):
    """The object of the loop: an engine over a model, and its validation between
    epochs.

    An epoch may train a part of the weights alone. The best epoch of each part is
    chosen among those that trained it.
    """

    @property
    def model(self) -> torch.nn.Module:
        """Holds the weights."""

    @property
    def engine(self) -> EpochEngine:
        """Takes the steps."""

    def validation_metric(self, epoch: int) -> tuple[str, str]:
        """For an epoch (from 0) the metric of `validate()` whose smallest value marks
        the best one, and the prefix of the weights that the epoch trains ("": all of
        them).
        """

    def validate(self, epoch: int) -> dict[str, float]:
        """Metrics on the validation part after an epoch (from 0), equal on every
        process.
        """


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The result of training. The model has the weights of the best epoch of each
    trained part; `best_epochs` has it, counted from 1, by the part's name
    (`Learner.validation_metric`).
    """

    epochs_done: int
    best_epochs: dict[str, int]
    stopped_early: bool
    epoch_seconds: tuple[float, ...]
    seconds_before: float  # of the epochs that an earlier attempt trained
    history: tuple[dict[str, float], ...]

    @property
    def best_epoch(self) -> int:
        """The best epoch of the part that was trained last."""
        return max(self.best_epochs.values())

    @property
    def best(self) -> dict[str, float]:
        """The figures of that epoch."""
        return self.history[self.best_epoch - 1]


def train(
    learner: Learner,
    training: TrainingConfig,
    *,
    folder: Path | None,
    comm: Communicator,
    report: Callable[[EpochReport], bool],
    facts: Mapping[str, str] = MappingProxyType({}),
) -> Trained:
    """Train for the epochs of `training`, or until `report` (called on rank 0) returns
    False. With `keep` last, the latest epoch of each part counts as its best.

    Resumes from the checkpoint in `folder` where there is one, and reports its last
    epoch once more so that permission for the next is checked again. Checkpoints have
    `facts`; `folder` None: none.
    """
    history: list[dict[str, float]] = []
    seconds: list[float] = []
    best = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    best_epochs: dict[str, int] = {}
    go_on = True
    saved = checkpoint.load(folder) if folder is not None else None
    if saved is not None:
        learner.model.load_state_dict(saved.part("model"))
        learner.engine.load_state_dict(saved.part("engine"))
        best = saved.part("best")
        history, seconds = saved.state["history"], saved.state["epoch_seconds"]
        best_epochs = saved.state["best_epochs"]
        go_on = _ask(report, history, seconds, comm)
    before_this = math.fsum(seconds)
    while go_on and len(history) < training.epochs:
        epoch = len(history)
        started = time.perf_counter()
        # Dropout is drawn anew from a named stream each epoch: a resumed epoch repeats
        # its masks.
        torch.manual_seed(stream_seed(training.seed, "dropout", epoch, comm.rank))
        metrics = learner.engine.run_epoch(epoch)
        seconds.append(time.perf_counter() - started)
        memory.give_back()
        metrics |= learner.validate(epoch)
        history.append(metrics)
        name, part = learner.validation_metric(epoch)
        # The best so far, or this epoch: never the weights from before the part's first
        # one. An epoch that is not validated has no figure.
        rival = history[best_epochs.get(part, 0) - 1].get(name, math.inf)
        # Of two equal epochs the later; a figure that is no number is as large as can
        # be.
        if training.keep == "last" or metrics[name] <= rival or not rival < math.inf:
            best_epochs[part] = len(history)
            state = learner.model.state_dict()
            best |= {key: t.clone() for key, t in state.items() if key.startswith(part)}
        if folder is not None and comm.rank == 0:
            parts = {
                "model": learner.model.state_dict(),
                "best": best,
                "engine": learner.engine.state_dict(),
            }
            tensors = {
                f"{of}.{n}": each
                for of, named in parts.items()
                for n, each in named.items()
            }
            figures = {
                "history": history,
                "epoch_seconds": seconds,
                "best_epochs": best_epochs,
            }
            kept = checkpoint.Checkpoint(tensors=tensors, state={**figures, **facts})
            checkpoint.save(folder, kept)
        go_on = _ask(report, history, seconds, comm)
    learner.model.load_state_dict(best)
    return Trained(
        epochs_done=len(history),
        best_epochs=best_epochs,
        stopped_early=len(history) < training.epochs,
        epoch_seconds=tuple(seconds),
        seconds_before=before_this,
        history=tuple(history),
    )


def _ask(
    report: Callable[[EpochReport], bool],
    history: list[dict[str, float]],
    seconds: list[float],
    comm: Communicator,
) -> bool:
    """Report the last epoch on rank 0 and broadcast the answer."""
    answer = None
    if comm.rank == 0:
        answer = report(
            EpochReport(
                epochs_done=len(history), seconds=seconds[-1], metrics=dict(history[-1])
            )
        )
    return bool(comm.broadcast(answer))

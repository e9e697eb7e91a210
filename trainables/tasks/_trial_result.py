"""The parts that all tasks share: the setup of the engine, and the frame of the
result.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from trainables.cards import card as cards
from trainables.cards.card import ClippingCheck, StepAudit
from trainables.config.learning_rate import learning_rate_of
from trainables.config.trial import TrialConfig
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.summary import PrivacySummary
from trainables.dp.engines._check import TOLERANCE
from trainables.dp.engines.engine import Loader, Setup
from trainables.dp.engines.step_audit import audit_step
from trainables.dp.mechanism import Mechanism
from trainables.dp.noise import SecretKey, is_cipher, new_key, public_key
from trainables.dp.population import Ids
from trainables.errors import InvalidInput
from trainables.figures import CLIP_DIFFERENCE, RISKS
from trainables.result import TrialResult
from trainables.system import phase
from trainables.system.communication import Communicator
from trainables.training import Trained

_AUDIT_CALLS = 240  # under a second; `sweep audit` takes more


@contextmanager
def first_rank_first(comm: Communicator) -> Iterator[None]:
    """Run the work on rank 0 first, so that the others read it from the cache."""
    if comm.rank != 0:
        comm.broadcast(None)
    try:
        yield
    finally:
        if comm.rank == 0:
            comm.broadcast(None)


def attempt_key(config: TrialConfig, comm: Communicator) -> SecretKey:
    """A new key for each attempt, so that no noise is reused for two gradients."""
    if config.privacy.reproducible_noise:
        return public_key(config.training.seed, config.id)
    return new_key(comm)


def on_device(model: nn.Module, comm: Communicator) -> None:
    """Move a model to the device of this process, which becomes that of "cuda" too.

    Raises: InvalidInput where torch cannot use the GPU that this process was given.
    """
    device = comm.device
    if device.type == "cuda":
        if torch.cuda.device_count() <= (device.index or 0):
            raise InvalidInput(
                "expected resources.gpus_per_worker=0 where torch finds no GPU, got a"
                f" worker on {device} with {torch.cuda.device_count()} found"
            )
        torch.cuda.set_device(device.index or 0)  # a bare "cuda" has no index
    model.to(device)


def engine_setup(
    config: TrialConfig,
    *,
    mechanism: Mechanism,
    loader: Loader,
    ids: Ids,
    comm: Communicator,
    key: SecretKey,
    trial_id: str,
    **others: Any,
) -> Setup:
    """`Setup` with the fields that a config has; `others` are further
    fields of it.
    """
    training = config.training
    return Setup(
        loader=loader,
        ids=ids,
        comm=comm,
        key=key,
        trial_id=trial_id,
        seed=training.seed,
        learning_rate=learning_rate_of(training.learning_rate, mechanism),
        learning_rate_decay=training.learning_rate_decay,
        gradient_clip_norm=training.gradient_clip_norm,
        optimizer=training.optimizer,
        precision=training.precision,
        secure_noise=config.privacy.secure_noise,
        **{"physical_batch_size": training.physical_batch_size, **others},
    )


class Clock:
    """Seconds of the parts of a trial, each named when it ends. The process that
    `leads` writes the phase outside of training into `folder`.
    """

    def __init__(self, folder: Path, *, leads: bool) -> None:
        self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}
        phase.FOLDER.set(folder if leads else None)
        phase.enter(phase.LOADING)

    def end(self, part: str, *, without: float = 0.0, then: str = "") -> None:
        """End a part that began at the end of the last one; `without` seconds are of
        other parts inside of it.
        """
        now = time.perf_counter()
        self.seconds[part] = now - self._last - without
        self._last = now
        phase.enter(then)


def spent_privacy(
    config: TrialConfig, mechanism: Mechanism, trained: Trained
) -> PrivacySummary:
    """The spent figures of the trained epochs, certified here: no cache is read."""
    return account(
        mechanism.first(trained.epochs_done), accountant=config.privacy.accountant
    )


def result(
    config: TrialConfig,
    mechanism: Mechanism,
    trained: Trained,
    summary: PrivacySummary,
    *,
    comm: Communicator,
    metrics: Mapping[str, float | None],
    seconds: Mapping[str, float],
    corpus: str,
    public_data: bool,
    provenance: str,
    public: Sequence[str],
    notes: tuple[str, ...],
    attacks: Sequence[str] = (),
    by_record: bool = False,
) -> TrialResult:
    """The result of a trial: the task's own metrics, those that every trial has, and
    its privacy card.

    `seconds` of the parts do not overlap; "train" is the whole training loop of this
    attempt, and "shadow" is no part, because other trials use the shadow model, too.
    `public` are the inputs that are treated as public. `by_record`: its model is
    clipped by `torch.func`.
    """
    epochs = math.fsum(trained.epoch_seconds)
    between = seconds["train"] - (epochs - trained.seconds_before)
    parts = {**seconds, "train": epochs, "between_epochs": max(0.0, between)}
    times = {
        **parts,
        "epoch": float(np.median(trained.epoch_seconds)),
        "total": math.fsum(spent for part, spent in parts.items() if part != "shadow"),
    }
    return TrialResult(
        trial_id=config.id,
        epochs_done=trained.epochs_done,
        stopped_early=trained.stopped_early,
        metrics={
            **metrics,
            "epsilon": summary.epsilon,
            "epsilon_replace_one": summary.epsilon_replace_one,
            "delta": summary.delta,
            **{name: getattr(summary, name) for name in RISKS},
            "best_epoch": float(trained.best_epoch),
            **{f"seconds_{name}": value for name, value in times.items()},
        },
        privacy=cards.make(
            mechanism.first(trained.epochs_done),
            summary,
            trial_id=config.id,
            corpus=corpus,
            processes=comm.world_size,
            secure_noise=is_cipher(comm.device, secure=config.privacy.secure_noise),
            public_data=public_data,
            provenance=provenance,
            public=public,
            attacks=attacks,
            n_is_declared=public_data or config.data.num_records is not None,
            step_audit=step_audit(mechanism, comm=comm, by_record=by_record),
            clipping_check=clipping_check(trained.history),
        ),
        notes=notes,
        seconds=times,
    )


def clipping_check(history: Sequence[Mapping[str, float]]) -> ClippingCheck | None:
    """The outcome of the comparisons in all of these epochs; None where one had
    none.
    """
    found = [epoch[CLIP_DIFFERENCE] for epoch in history if CLIP_DIFFERENCE in epoch]
    if not found or len(found) < len(history):
        return None
    verdict = "pass" if max(found) <= TOLERANCE else "fail"
    return ClippingCheck(verdict=verdict, tolerance=TOLERANCE, alone=True)


def step_audit(
    mechanism: Mechanism, *, comm: Communicator, by_record: bool
) -> StepAudit | None:
    """The audit of this trial's step on adversarial inputs without real records; None
    without a claim, and on all ranks but 0.
    """
    # Without a bound on alpha_k the worst group may have no noise to speak of.
    if comm.rank != 0 or mechanism.effective_noise_multiplier_at(0) == 0:
        return None
    # The step of one stage, because stages do not differ in the audited properties.
    own = replace(mechanism, stages=(), histogram_noise_multiplier=0.0)
    found = audit_step(own, calls=_AUDIT_CALLS, by_record=by_record)
    return StepAudit(
        verdict="pass" if found.passed else "fail",
        claimed=found.claimed,
        measured=found.estimate,
        low=found.interval[0],
        high=found.interval[1],
    )

"""The facts of a privacy card that all tasks share."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from trainables import engines
from trainables.config import TrialConfig
from trainables.privacy.mechanism import Mechanism
from trainables.privacy.noise import is_cipher
from trainables.system.communication import Communicator

_AUDIT_CALLS = 240  # under a second; `sweep audit` takes more


def privacy_facts(
    config: TrialConfig,
    mechanism: Mechanism,
    *,
    epochs_done: int,
    comm: Communicator,
    by_record: bool = False,
) -> dict[str, Any]:
    """Mechanism and processes as plain data; a task adds the facts of its corpus and model.

    `by_record`: its model is clipped by `torch.func`.
    """
    return {
        "mechanism": asdict(replace(mechanism, epochs=epochs_done)),
        "processes": comm.world_size,
        "noise_is_cipher": is_cipher(comm.device, secure=config.privacy.secure_noise),
        "accountant": config.privacy.accountant,
        "step_audit": step_audit(mechanism, comm=comm, by_record=by_record),
    }


def step_audit(
    mechanism: Mechanism, *, comm: Communicator, by_record: bool = False
) -> dict[str, Any] | None:
    """The audit of this trial's step on adversarial inputs without real records; None without a
    claim, and on all ranks but 0.
    """
    if comm.rank != 0 or not mechanism.is_private:
        return None
    # The step of one stage, because stages do not differ in the audited properties.
    own = replace(mechanism, stages=(), histogram_noise_multiplier=0.0)
    found = engines.audit_step(own, calls=_AUDIT_CALLS, by_record=by_record)
    return {
        "verdict": "pass" if found.passed else "fail",
        "claimed": found.claimed,
        "measured": found.estimate,
        "low": found.interval[0],
        "high": found.interval[1],
    }

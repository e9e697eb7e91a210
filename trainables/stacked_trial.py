"""Several trials of one architecture trained side by side, each with the result it has alone.

Trials may share a stack where they differ only in C, the noise multiplier and its decay, the
learning rate and the seed (`stack_key`). Every member keeps its own folder, checkpoints, secret
key, sampling, noise and dropout, so it can go on alone from a checkpoint of the stack, and the
other way round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainables import trial
from trainables.communication import Alone
from trainables.config import TrialConfig
from trainables.errors import InvalidInput
from trainables.result import EpochReport, TrialResult

# What members may differ in: none of it changes the shape of a step's work.
_FREE = {
    "privacy": ("max_grad_norm", "noise_multiplier", "noise_decay"),
    "training": ("learning_rate", "seed"),
}
_MODELS = ("bert", "clc")


@dataclass(frozen=True, kw_only=True)
class Member:
    """One trial of a stack: what `trainables.trial.run` is given for it."""

    config: TrialConfig
    folder: Path
    report: Callable[[EpochReport], bool]


def stack_key(config: TrialConfig) -> str | None:
    """Equal for trials that may be one stack; None for one that can only run alone.

    Trials of another task than intents and slots, and of models without stacked layers, run alone.
    A stack is one process: the N workers of its members are logical ones.
    """
    if config.task != "nlu" or config.model.name not in _MODELS:
        return None
    fields = config.model_dump(mode="json")
    for part, names in _FREE.items():
        for name in names:
            del fields[part][name]
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def run_stacked(
    members: Sequence[Member],
    *,
    data_dir: Path,
    cache_dir: Path,
    ended: Callable[[int, TrialResult | Exception], None],
) -> None:
    """Train and measure all `members` in this process, each as `trainables.trial.run` would.

    `ended(i, result or error)` is called once for each member, as soon as it is there. A member
    whose `report` answers False leaves the stack, and so does one that fails; the others go on.
    `report` and `ended` are called on the caller's thread; an error of `ended` ends the whole stack
    and is raised.

    Raises: InvalidInput where the members may not be stacked.
    """
    keys = {stack_key(member.config) for member in members}
    if len(members) > 1 and (None in keys or len(keys) > 1):
        raise InvalidInput(
            "expected trials that differ only in max_grad_norm, noise_multiplier, noise_decay,"
            f" learning_rate and seed, got {len(keys)} kinds"
        )
    for number, member in enumerate(members):
        try:
            outcome: TrialResult | Exception = trial.run(
                member.config,
                folder=member.folder,
                comm=Alone(),
                report=member.report,
                data_dir=data_dir,
                cache_dir=cache_dir,
            )
        except Exception as error:  # noqa: BLE001  what breaks one member must not touch others
            outcome = error
        ended(number, outcome)

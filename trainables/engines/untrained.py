"""No training: the initial model, from public knowledge alone. Epsilon 0.

Its error is that of the labels' names before any private record is read (`model.prior: names`), a
third reference beside the same model without privacy and the best trial of the space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from trainables.config import NoiseCalibration, PrivacyConfig, Sampling, TargetEpsilon
from trainables.engines._look import Look

if TYPE_CHECKING:
    from torch import nn

    from trainables.engines._engine import Engine, Setup
    from trainables.privacy.mechanism import Mechanism

KIND = "prior"
TASKS = ("nlu",)
LOOK = Look(label="ε = 0 (prior)", light="#5B4A9C", dark="#A99BE0", mark="square")
PAPER_FIGURE = False
AUDITED = ()
TRAINING = ("num_workers", "physical_batch_size")  # what it reads of that section


class Config(PrivacyConfig):
    """The fields of `privacy` with `engine: untrained`: the delta at which epsilon is 0."""

    engine: ClassVar[str] = "untrained"
    lacks = frozenset(PrivacyConfig.model_fields) - {"delta"}
    sampling: Sampling | None = "full"
    noise_calibration: NoiseCalibration | None = "central"
    microbatch_size: int | None = 1
    noise_multiplier: float | TargetEpsilon = 0.0


def check(mechanism: Mechanism) -> None:
    """Accept every mechanism, because nothing is released."""


def make(model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
    """An engine that leaves the model as it is.

    Raises: InvalidInput where `mechanism` is of another engine.
    """
    from trainables.engines._engine import refuse_other
    from trainables.engines._untrained import UntrainedEngine

    refuse_other("untrained", mechanism)
    return UntrainedEngine(model, mechanism, setup)

"""No step at all: the model as it begins, from public knowledge alone. Epsilon 0.

What labels' names say before any private record is read (`model.prior: names`), as a trial of its
own: the error that a guarantee of no loss at all would buy, the third denominator beside the same
model without privacy and the best one of the space.
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


class Config(PrivacyConfig):
    """The fields of `privacy` with `engine: untrained`: the delta at which epsilon is 0."""

    engine: ClassVar[str] = "untrained"
    lacks = frozenset(PrivacyConfig.model_fields) - {"delta"}
    sampling: Sampling | None = "full"
    noise_calibration: NoiseCalibration | None = "central"
    microbatch_size: int | None = 1
    noise_multiplier: float | TargetEpsilon = 0.0


def check(mechanism: Mechanism) -> None:
    """It runs any: nothing is released."""


def make(model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
    """An engine that leaves the model as it is.

    Raises: InvalidInput where `mechanism` is another engine's.
    """
    from trainables.engines._engine import refuse_other
    from trainables.engines._untrained import UntrainedEngine

    refuse_other("untrained", mechanism)
    return UntrainedEngine(model, mechanism, setup)

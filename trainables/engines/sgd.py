"""Plain data-parallel Adam: the mean gradient of a step's records; no clip, noise or epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from trainables.config import NOISE_FIELDS, PrivacyConfig, Sampling, TargetEpsilon
from trainables.engines._look import Look

if TYPE_CHECKING:
    from torch import nn

    from trainables.engines._engine import Engine, Setup
    from trainables.privacy.mechanism import Mechanism

KIND = "plain"
BASELINE = True
TASKS = ("nlu", "synthesis")
LOOK = Look(label="SGD", light="#595959", dark="#b8b8b8", mark="cross")
PAPER_FIGURE = False
AUDITED = ()


class Config(PrivacyConfig):
    """The fields of `privacy` with `engine: sgd`: those that say how records are drawn."""

    engine: ClassVar[str] = "sgd"
    lacks = NOISE_FIELDS
    sampling: Sampling | None = "shuffle"
    noise_multiplier: float | TargetEpsilon = 0.0


def check(mechanism: Mechanism) -> None:
    """Accept every mechanism, because no privacy is claimed."""


def make(model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
    """The engine of one trial on one process.

    Raises: InvalidInput where `mechanism` and `setup` do not match.
    """
    from trainables.engines._engine import refuse_other
    from trainables.engines._plain import PlainEngine

    refuse_other("sgd", mechanism)
    return PlainEngine(model, mechanism, setup)

"""No training: the initial model, from public knowledge alone. Epsilon 0.

Its error is that of the labels' names before any private record is read (`model.prior:
names`), a third reference beside the same model without privacy and the best trial of
the space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from trainables.config.fields import fixed_fields
from trainables.config.sections import (
    INTERNAL_DISCRIMINATOR,
    CoversConfig,
    PrivacyConfig,
)
from trainables.dp.engines._chart_style import ChartStyle

if TYPE_CHECKING:
    from torch import nn

    from trainables.dp.engines._engine import Engine, Setup
    from trainables.dp.mechanism import Mechanism

TASKS = ("nlu",)
LOOK = ChartStyle(label="ε = 0 (prior)", light="#5B4A9C", dark="#A99BE0", mark="square")
PAPER_FIGURE = False
AUDITED = ()


@fixed_fields(
    PrivacyConfig,
    noise_multiplier=0.0,
    sampling="full",
    noise_calibration="central",
    microbatch_size=1,
)
class Config(CoversConfig):
    """The fields of `privacy` with `engine: untrained`: the delta at which epsilon is
    0, or with `covers: all` that of its figures' noise.
    """

    engine: Annotated[Literal["untrained"], INTERNAL_DISCRIMINATOR] = "untrained"


def check(mechanism: Mechanism) -> None:
    """Accept every mechanism, because nothing is released."""


def make(model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
    """An engine that leaves the model as it is.

    Raises: InvalidInput where `mechanism` is of another engine.
    """
    from trainables.dp.engines._engine import refuse_other
    from trainables.dp.engines._untrained import UntrainedEngine

    refuse_other("untrained", mechanism)
    return UntrainedEngine(model, mechanism, setup)

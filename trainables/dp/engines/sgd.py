"""Plain data-parallel Adam: the mean gradient of a step's records; no clip, noise or
epsilon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from trainables.config.fields import fixed_fields
from trainables.config.sections import (
    INTERNAL_DISCRIMINATOR,
    DrawnConfig,
    PrivacyConfig,
    Sampling,
)
from trainables.dp.engines._chart_style import ChartStyle

if TYPE_CHECKING:
    from torch import nn

    from trainables.dp.engines._engine import Engine, Setup
    from trainables.dp.mechanism import Mechanism

TASKS = ("nlu", "synthesis")
LOOK = ChartStyle(label="SGD", light="#595959", dark="#b8b8b8", mark="cross")
PAPER_FIGURE = False
AUDITED = ()


@fixed_fields(PrivacyConfig, noise_multiplier=0.0)
class Config(DrawnConfig):
    """The fields of `privacy` with `engine: sgd`: those that say how records are
    drawn.
    """

    engine: Annotated[Literal["sgd"], INTERNAL_DISCRIMINATOR] = "sgd"
    sampling: Sampling | None = "shuffle"


def check(mechanism: Mechanism) -> None:
    """Accept every mechanism, because no privacy is claimed."""


def make(model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
    """The engine of one trial on one process.

    Raises: InvalidInput where `mechanism` and `setup` do not match.
    """
    from trainables.dp.engines._engine import refuse_other
    from trainables.dp.engines._plain import PlainEngine

    refuse_other("sgd", mechanism)
    return PlainEngine(model, mechanism, setup)

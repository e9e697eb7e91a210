"""DP-SGD: each record's gradient is clipped separately, the sum noised (Abadi et al.
2016).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainables.config.sections import (
    INTERNAL_DISCRIMINATOR,
    NoiseCalibration,
    PrivacyConfig,
    Sampling,
)
from trainables.dp.engines._chart_style import ChartStyle
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from torch import nn

    from trainables.dp.engines._engine import Engine, Setup
    from trainables.dp.mechanism import Mechanism

TASKS = ("nlu", "synthesis")
LOOK = ChartStyle(label="DP-SGD", light="#B84F00", dark="#F0995A", mark="diamond")
PAPER_FIGURE = False
AUDITED = (
    {"privacy.sampling": "poisson"},
    {"privacy.sampling": "shuffle"},
    {"privacy.sampling": "random_allocation"},
)


class Config(PrivacyConfig):
    """The fields of `privacy` with `engine: dp_sgd`."""

    engine: Annotated[Literal["dp_sgd"], INTERNAL_DISCRIMINATOR] = "dp_sgd"
    sampling: Sampling | None = "poisson"
    noise_calibration: NoiseCalibration | None = "central"
    microbatch_size: Annotated[int | None, Field(ge=1)] = 1
    """gradients are clipped per record"""


def check(mechanism: Mechanism) -> None:
    """Raises: InvalidInput where more than one record is clipped as one."""
    if mechanism.microbatch_size != 1:
        raise InvalidInput(
            "expected privacy.microbatch_size=1 with engine dp_sgd,"
            f" got {mechanism.microbatch_size} (it clips every record alone)"
        )


def make(model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
    """The engine of one trial on one process.

    Raises: InvalidInput for a model whose layers mix records, and where `mechanism` and
        `setup` do not match.
    """
    from trainables.dp.engines._engine import refuse_other
    from trainables.dp.engines._private import PrivateEngine

    refuse_other("dp_sgd", mechanism)
    return PrivateEngine(model, mechanism, setup)

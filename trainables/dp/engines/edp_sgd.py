"""eDP-SGD: each worker clips and noises its own gradient (Dupuy et al. 2021, Algorithm
1).

With noise calibration `paper` exactly as printed: one micro-batch a worker, alpha_k,
clip, rescale, noise of standard deviation C z / N. `central` and smaller micro-batches
are its sound variants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from trainables.config.sections import (
    INTERNAL_DISCRIMINATOR,
    NoiseCalibration,
    PrivacyConfig,
    Sampling,
)
from trainables.dp.engines._chart_style import ChartStyle

if TYPE_CHECKING:
    from torch import nn

    from trainables.dp.engines._engine import Engine, Setup
    from trainables.dp.mechanism import Mechanism

TASKS = ("nlu",)
LOOK = ChartStyle(label="eDP-SGD", light="#0072B2", dark="#56B4E9", mark=None)
PAPER_FIGURE = True
_EIGHT = {"training.num_workers": 8}
AUDITED = (
    {"privacy.noise_calibration": "paper", **_EIGHT},
    {
        "privacy.noise_calibration": "paper",
        "privacy.group_scale": "first_step_noised",
        **_EIGHT,
    },
    {"privacy.noise_calibration": "central", **_EIGHT},
    {
        "privacy.noise_calibration": "central",
        "privacy.group_scale": "first_step_noised",
        **_EIGHT,
    },
    {"privacy.noise_calibration": "central", "privacy.sampling": "poisson", **_EIGHT},
    {
        "privacy.noise_calibration": "central",
        "privacy.sampling": "poisson",
        "privacy.microbatch_size": 1,
        **_EIGHT,
    },
)


class Config(PrivacyConfig):
    """The fields of `privacy` with `engine: edp_sgd`. The defaults are the paper's."""

    engine: Annotated[Literal["edp_sgd"], INTERNAL_DISCRIMINATOR] = "edp_sgd"
    sampling: Sampling | None = "shuffle"
    noise_calibration: NoiseCalibration | None = "paper"


def check(mechanism: Mechanism) -> None:
    """It runs every mechanism that a theorem covers."""


def make(model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
    """The engine of one trial on one process.

    Raises: InvalidInput for a model whose layers mix records, and where `mechanism` and
        `setup` do not match.
    """
    from trainables.dp.engines._engine import refuse_other
    from trainables.dp.engines._private import PrivateEngine

    refuse_other("edp_sgd", mechanism)
    return PrivateEngine(model, mechanism, setup)

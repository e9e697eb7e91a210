"""DP-SGD: each record's gradient is clipped by itself, the sum noised (Abadi et al. 2016)."""

from __future__ import annotations

from torch import nn

from trainables.engines._engine import Engine, Setup, refuse_other
from trainables.engines._private import PrivateEngine
from trainables.privacy.mechanism import Mechanism


def make(model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
    """The engine of one trial on one process.

    Raises: InvalidInput for a model whose layers mix records, and where `mechanism` or `setup` do
        not belong together.
    """
    refuse_other("dp_sgd", mechanism)
    return PrivateEngine(model, mechanism, setup)

"""eDP-SGD: each worker clips and noises its own gradient (Dupuy et al. 2021, Algorithm 1).

With noise calibration `paper` exactly as printed: one micro-batch a worker, alpha_k, clip, rescale,
noise of standard deviation C z / N. `central` and smaller micro-batches are its sound variants.
"""

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
    refuse_other("edp_sgd", mechanism)
    return PrivateEngine(model, mechanism, setup)

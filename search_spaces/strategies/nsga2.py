"""NSGA-II (Deb et al. 2002): generations that keep a Pareto front."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

REPLAYS = True  # a generation consists of its own proposals


def sampler(*, seed: int, startup: int) -> BaseSampler:
    """Optuna's sampler; `startup` points are spread over the space before it is
    used.
    """
    from optuna import samplers

    # A population as small as the start, so that a short search has several
    # generations.
    return samplers.NSGAIISampler(seed=seed, population_size=max(2, startup))

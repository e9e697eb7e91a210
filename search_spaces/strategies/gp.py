"""A Gaussian process with expected improvement, for a few axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

REPLAYS = False


def sampler(*, seed: int, startup: int) -> BaseSampler:
    """Optuna's sampler; `startup` points are spread over the space before it is
    used.
    """
    from optuna import samplers

    return samplers.GPSampler(seed=seed, n_startup_trials=1)

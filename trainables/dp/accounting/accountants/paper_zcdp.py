"""The paper's figure: zCDP with one Gaussian release an epoch (Dupuy et al. 2021,
section 3.4; Yu et al. 2019), in closed form. It reads the noise schedule and nothing
else: not a guarantee of what runs (docs/guides/privacy.md), reported beside the epsilon
that is.
"""

import math

from trainables import catalogue
from trainables.dp.mechanism import Mechanism
from trainables.errors import CannotAnalyze

NO_GUARANTEE = "its figure is no guarantee of what runs; it is reported beside epsilon"


def applies(mechanism: Mechanism) -> bool:
    """Whether the figure is of the noise schedule of the mechanism's engine."""
    # Its epochs are passes over the data, and all that it has released are their steps.
    own = bool(catalogue.entry("engines", mechanism.engine).has_paper_figure)
    return own and not mechanism.num_steps and not mechanism.starts


def epsilon(mechanism: Mechanism, *, delta: float) -> float:
    """rho + 2 sqrt(rho ln(1 / delta)) with rho = sum over epochs of 1 / (2 z_t^2).

    `math.inf` where a z_t is 0.

    Raises: CannotAnalyze for an engine to which the formula does not apply.
    """
    if not applies(mechanism):
        every = catalogue.names("engines")
        known = [
            name for name in every if catalogue.entry("engines", name).has_paper_figure
        ]
        raise CannotAnalyze(
            f"paper_zcdp: expected engine {' or '.join(known)}, got {mechanism.engine}"
        )
    rho = 0.0
    for epoch in range(mechanism.epochs):
        z = mechanism.noise_multiplier_at(epoch)
        if z * z == 0:
            return math.inf
        rho += 1 / (2 * z * z)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))

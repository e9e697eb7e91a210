"""Privacy loss distributions of the Poisson-sampled Gaussian (Koskela et al. 2020;
Doroshenko et al. 2022): the exact figure, on a grid that always errs upwards. None for
random allocation, and where noise is so small that only upper bounds exist.
"""

from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.releases import Release


def of_release(what: Release, *, delta: float) -> float:
    """Epsilon of a release, under its own neighbouring relation.

    Raises: CannotAnalyze where there is no figure.
    """
    return certify(what, delta=delta, only="pld").epsilon

"""Composition of Gaussian mechanisms, exact for shuffled epochs and full batches (Balle
& Wang 2018; Dong, Roth & Su 2022). For Poisson sampling the adversary is assumed to
know who is sampled (tight where noise is small), for random allocation the step in each
epoch: upper bounds.
"""

from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.releases import Release


def of_release(what: Release, *, delta: float) -> float:
    """Epsilon of a release, under its own neighbouring relation."""
    return certify(what, delta=delta, only="gaussian").epsilon

"""Rényi accounting of Gaussian mechanisms, Poisson-sampled or not (Mironov 2017;
Mironov, Talwar & Zhang 2019), and of random allocation (Feldman & Shenfeld 2025): an
upper bound, usually some percent above the exact figure and far above it where noise is
small.
"""

from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.releases import Release


def of_release(what: Release, *, delta: float) -> float:
    """Epsilon of a release, under its own neighbouring relation."""
    return certify(what, delta=delta, only="rdp").epsilon

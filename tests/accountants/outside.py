"""Privacy figures in which no code of this project takes part: `dp_accounting` through
its public functions, and closed forms. Tests hold the project's own figures against
these.
"""

import math
from collections import Counter

import dp_accounting as dp
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from trainables.dp.accounting.releases import Sampled

_WHOLE = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64)


def gaussian_epsilon(*sigmas, delta):
    """Epsilon of Gaussian mechanisms together: mu^2 = sum of 1 / sigma^2 (Dong, Roth &
    Su 2022), each `sigma` the noise over the sensitivity.
    """
    mu = math.sqrt(math.fsum(sigma**-2 for sigma in sigmas))
    return float(dp.get_epsilon_gaussian(1 / mu, delta)) if mu else 0.0


def algorithm_1(noise_multiplier, *, workers, epochs):
    """The sigma of each epoch of Dupuy et al. (2021): N workers add C z / N each to
    sums that a replaced record changes by 2 C, so that z / (2 sqrt(N)) is left.
    """
    return [noise_multiplier / (2 * math.sqrt(workers))] * epochs


def sampled(sigma, *, rate, steps):
    """The event of Poisson-sampled Gaussian steps."""
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
    return dp.SelfComposedDpEvent(step, steps)


def pld_epsilon(*events, delta, interval=1e-4, replace_one=False):
    """Epsilon of events together by privacy loss distributions, on a grid of
    `interval`.
    """
    relation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    if replace_one:
        relation = dp.NeighboringRelation.REPLACE_ONE
    accountant = PLDAccountant(relation, value_discretization_interval=interval)
    return float(
        accountant.compose(dp.ComposedDpEvent(list(events))).get_epsilon(delta)
    )


def rdp_epsilon(*events, delta):
    """Epsilon of events together by Rényi divergences, selections among them."""
    return float(
        RdpAccountant().compose(dp.ComposedDpEvent(list(events))).get_epsilon(delta)
    )


def divergence(*events, order):
    """The Rényi divergence of events together at an order, or at the next whole one of
    `_WHOLE`, which bounds it: between whole orders the library's series of a sampled
    Gaussian may be looser.
    """
    above = next(each for each in _WHOLE if each >= order)
    accountant = RdpAccountant([order, above]).compose(dp.ComposedDpEvent(list(events)))
    return float(min(accountant.rdp))


def events_of(releases):
    """The events of trainings, what stands beside their steps included."""
    return [
        dp.SelfComposedDpEvent(event, count)
        for event, count in counted(releases).items()
    ]


def counted(releases):
    """How often each event occurs in all of these trainings, beside their steps too."""
    counts = Counter()
    for step in (step for what in releases for step in (*what.steps, *what.beside)):
        event = dp.GaussianDpEvent(step.sigma)
        if isinstance(step, Sampled):
            event = dp.PoissonSampledDpEvent(step.rate, event)
        counts[event] += step.count
    return counts


def composed(releases, *, delta):
    """Epsilon of all trainings together: exact for Gaussians alone, else by Rényi
    divergences.
    """
    counts = counted(releases)
    if not counts:
        return 0.0
    if all(isinstance(event, dp.GaussianDpEvent) for event in counts):
        sigmas = (
            event.noise_multiplier / math.sqrt(count) for event, count in counts.items()
        )
        return gaussian_epsilon(*sigmas, delta=delta)
    return rdp_epsilon(*events_of(releases), delta=delta)

"""Figures against published tables and closed forms (see also
`test_check_values.py`).
"""

import math

import numpy as np
import pytest
from _mechanisms import mechanism, poisson, sampled
from scipy.optimize import minimize_scalar

from tests.refusals import refused
from trainables.dp.accounting import pld as grid
from trainables.dp.accounting import renyi
from trainables.dp.accounting.accountants import paper_zcdp
from trainables.dp.accounting.gaussian import gaussian_epsilon, without_amplification
from trainables.errors import CannotAnalyze


def test_the_papers_figure_reads_the_schedule_alone():
    """It ignores workers, sampling and the number of records, so it is no guarantee."""
    figures = {
        paper_zcdp.epsilon(built, delta=5e-4)
        for built in (
            mechanism(),
            mechanism(workers=1),
            mechanism(num_records=5_000),
            mechanism(sampling="poisson"),
        )
    }
    assert len(figures) == 1


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "published"),
    [
        # tensorflow/privacy, tutorials/README.md: MNIST, 60,000 records, batches of 256
        (1.12, 256 / 60_000, 60 * 60_000 / 256, 2.92),
        (0.6, 256 / 60_000, 30 * 60_000 / 256, 9.74),
        (1.2, 256 / 60_000, 10 * 60_000 / 256, 1.20),
        # pytorch/opacus, examples/mnist_README.md; the larger two are of batches of 256
        # as well
        (1.3, 0.004, 15 * 250, 1.18),
        (0.7, 256 / 60_000, 45 * 60_000 / 256, 7.10),
        (1.1, 256 / 60_000, 60 * 60_000 / 256, 3.01),
        # Abadi et al. 2016, section 2.3: moments accountant, q = 0.01, sigma = 4,
        # 10,000 steps
        (4.0, 0.01, 10_000, 1.26),
    ],
)
def test_published_tables(sigma, rate, steps, published):
    """The tables used Mironov's first conversion of the same divergences; ours gives
    less.
    """
    release = poisson(sigma, steps=math.ceil(steps), rate=rate)
    theirs = np.min(renyi.curve(release) + math.log(1e5) / (np.array(renyi.ORDERS) - 1))
    assert theirs == pytest.approx(published, rel=0.02)
    assert grid.epsilon_of(release.steps, delta=1e-5, points=grid.QUICK) < theirs


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("delta", [1e-5, 0.1])
def test_granting_the_coins_spends_delta_once(sigma, delta):
    """Half of delta for the number of participations, half for the Gaussian: with the
    least Chernoff bound of any lambda, no smaller figure is proven.
    """
    steps, q, weight = 1_200, 64 / 2_600, 1 / sigma**2

    def bound(log_rate):
        rate = math.exp(log_rate) / weight
        moment = steps * math.log1p(q * math.expm1(rate * weight))
        return float((moment - math.log(delta / 2)) / rate)

    likely = minimize_scalar(bound, bounds=(-8, 4), method="bounded").fun
    least = gaussian_epsilon(math.sqrt(likely), delta / 2)
    parts = (sampled(sigma, steps=steps, rate=q),)
    assert (
        least * (1 - 1e-6) <= without_amplification(parts, delta=delta) <= 1.02 * least
    )
    # With delta whole for either half the figure would be smaller than is proven.
    assert gaussian_epsilon(math.sqrt(likely), delta) < least * (1 - 1e-4)


def test_the_papers_figure_is_of_its_own_engine():
    with refused("paper_zcdp: expected engine edp_sgd, got dp_sgd", CannotAnalyze):
        paper_zcdp.epsilon(mechanism("dp_sgd"), delta=5e-4)

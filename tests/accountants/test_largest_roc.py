"""The ROC that a guarantee allows is above every ROC of the mechanism."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.accounting.privacy_semantics import largest_roc, upper_area


@pytest.mark.parametrize("mu", [0.1, 0.7, 1.7, 4.0])
def test_it_is_above_the_best_test_of_a_gaussian_and_touches_it(mu):
    """N(mu, 1) against N(0, 1), whose best test is known exactly."""

    def best(fpr):
        return ndtr(ndtri(fpr) + mu)

    known = {
        "epsilon": gaussian_epsilon(mu, 1e-5),
        "delta": 1e-5,
        "tprs": {0.01: float(best(0.01)), 0.001: float(best(0.001))},
        "advantage": float(2 * ndtr(mu / 2) - 1),
    }
    fprs = np.linspace(1e-4, 1 - 1e-4, 997)
    allowed = largest_roc(fprs, **known)
    assert (allowed >= best(fprs) - 1e-9).all()
    assert (np.diff(allowed) >= -1e-12).all()
    at = largest_roc(np.array([0.001, 0.01]), **known)
    assert at == pytest.approx([known["tprs"][0.001], known["tprs"][0.01]])
    area = float(ndtr(mu / np.sqrt(2)))
    bound = upper_area(lambda fpr: largest_roc(fpr, **known))
    assert area <= bound <= area + 0.08


def test_no_privacy_allows_everything_and_perfect_privacy_chance():
    fprs = np.array([0.0, 0.01, 0.5, 1.0])
    open_ = {"tprs": {0.01: 1.0}, "advantage": 1.0}
    free = largest_roc(fprs, epsilon=800.0, delta=1e-5, **open_)
    assert free[1:] == pytest.approx([1.0, 1.0, 1.0])
    nothing = {"tprs": {0.01: 0.01}, "advantage": 0.0}
    assert largest_roc(fprs, epsilon=0.0, delta=0.0, **nothing) == pytest.approx(fprs)

"""The version of the accounting code, which is part of the key of cached figures."""

from dataclasses import replace

import pytest
from _mechanisms import mechanism

from trainables.dp.accounting.calibration import noise_for
from trainables.dp.accounting.choose import account, bounds_after, epsilon_after
from trainables.dp.accounting.values import VERSION

# A change of any of these figures requires a new VERSION, and the new figures here.
GOLDEN_VERSION = 8
MECHANISMS = {
    "paper": mechanism(decay="linear", tau=0.3),
    "poisson": mechanism("dp_sgd"),
    "decay": mechanism("dp_sgd", decay="exponential", tau=0.2, epochs=4),
    "small noise": mechanism("dp_sgd", noise_multiplier=0.02),
    "histogram": replace(mechanism("dp_sgd", epochs=3), histogram_noise_multiplier=4.0),
    "allocation": mechanism("dp_sgd", sampling="random_allocation", epochs=3),
    "shuffled": replace(mechanism(epochs=3), histogram_noise_multiplier=4.0),
}
GOLDEN = {
    "paper": "17580.50926 18745.37803 17580.50926 17580.50926 18745.37803 17580.50926"
    " 35.321",
    "poisson": "4.120510515 4.691044739 7.13370586 4.153678339 4.697215881 4.120582018"
    " 0.47746",
    "decay": "4.637188851 6.050076596 5.325708781 6.20058186 6.20058186 4.637188851"
    " 0.50912",
    "small noise": "69437.219 1601379.449 275181.6915 69437.219 2236733.326 69437.219"
    " 0.47746",
    "histogram": "1.419099498 1.744133323 2.457115595 1.425229277 1.745186996"
    " 1.419112624 0.31584",
    "allocation": "1.400128077 1.400128077 3.377297183 1.400128077 1.400128077"
    " 1.400128077 0.28218",
    "shuffled": "79.46323085 84.19581259 79.46323085 79.46323085 84.19581259"
    " 79.46323085 1.8826",
}


def figures(built):
    """Each way to a figure: exact, planned, running, calibrated."""
    exact, planned = account(built), account(built, exact=False)
    replaced = exact.epsilon_replace_one
    assert replaced is not None
    return [
        *(
            exact.epsilon,
            exact.epsilon_rdp,
            replaced,
            planned.epsilon,
            planned.epsilon_rdp,
        ),
        epsilon_after(built, built.epochs),
        noise_for(built, target_epsilon=30.0),
    ]


@pytest.mark.parametrize("name", MECHANISMS)
def test_figures_change_with_the_version_alone(name):
    assert VERSION == GOLDEN_VERSION
    golden = [float(figure) for figure in GOLDEN[name].split()]
    assert figures(MECHANISMS[name]) == pytest.approx(golden, rel=1e-8)
    spent = bounds_after(MECHANISMS[name], MECHANISMS[name].epochs)["epsilon_spent"]
    assert spent == pytest.approx(golden[3 if name == "decay" else 5], rel=1e-8)

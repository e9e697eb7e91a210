"""Every value of the specification that a figure of this project must reproduce, with
its source: Dupuy et al. 2021, or computed independently, by `dp-accounting` 0.6 or in
closed form.
"""

import math

import pytest
from _mechanisms import mechanism, poisson, sampled, shuffled, training

from trainables.attacks.one_run import epsilon_lower_bound
from trainables.config.mechanism import default_delta
from trainables.dp.accounting.accountants import (
    gaussian,
    paper_zcdp,
    pld,
    rdp,
    selection,
)
from trainables.dp.accounting.calibration import noise_for
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.releases import Number, release


def paper(z0, kind="none", tau=0.0):
    return paper_zcdp.epsilon(
        mechanism(noise_multiplier=z0, decay=kind, tau=tau), delta=5e-4
    )


def best_of(mean, law):
    return selection.of_releases(
        [poisson()], delta=5e-4, number=Number(law=law, mean=mean)
    )


ONE_RECORD = mechanism("dp_sgd")  # n 2,560, B 64, 30 epochs, delta 5e-4, z 1
PAIRS = mechanism("dp_sgd", num_records=133_584, batch=2_048, epochs=10, delta=8e-6)
ATIS = mechanism("dp_sgd", num_records=4_478, noise_multiplier=2.0, delta=None)
ZCDP = "closed form of rho + 2 sqrt(rho ln(1/delta)), Yu et al. 2019"
GAUSS = "closed form of Balle & Wang 2018"
LIBRARY = "dp-accounting 0.6"
SELECTION = "Papernot & Steinke 2022"
RISK = (
    "riskcal 1.5.1 on dp-accounting 0.6"  # of all pairs; those at hand allow 0.2 % more
)

# what, value, unit of its last digit, source, how it is worked out here
VALUES = [
    ("paper, z0 1", 36.355, 1e-3, ZCDP, lambda: paper(1.0)),
    ("paper, z0 0.5", 102.711, 1e-3, ZCDP, lambda: paper(0.5)),
    ("paper, linear 0.02, z0 1", 53.21, 1e-2, ZCDP, lambda: paper(1.0, "linear", 0.02)),
    ("paper, linear 0.5, z0 0.5", 5605.4, 0.1, ZCDP, lambda: paper(0.5, "linear", 0.5)),
    (
        "paper, exp 0.05, z0 0.1",
        9598.8,
        0.1,
        ZCDP,
        lambda: paper(0.1, "exponential", 0.05),
    ),
    (
        *("paper, exp 0.5, z0 1, log10", 12.49, 1e-2, ZCDP),
        lambda: math.log10(paper(1.0, "exponential", 0.5)),
    ),
    (
        "Poisson, PLD",
        4.045,
        1e-3,
        LIBRARY,
        lambda: pld.of_release(poisson(), delta=5e-4),
    ),
    (
        "Poisson, RDP",
        4.608,
        1e-3,
        LIBRARY,
        lambda: rdp.of_release(poisson(), delta=5e-4),
    ),
    (
        *("Poisson, replace one", 6.997, 1e-3, LIBRARY),
        lambda: certify(poisson(), delta=5e-4, replace_one=True).epsilon,
    ),
    ("30 epochs, PLD", 4.1205, 1e-4, LIBRARY, lambda: account(ONE_RECORD).epsilon),
    ("30 epochs, RDP", 4.691, 1e-3, LIBRARY, lambda: account(ONE_RECORD).epsilon_rdp),
    ("pairs, steps", 653, 0, "ceil(10 * 133,584 / 2,048)", lambda: PAIRS.steps),
    (
        "pairs, z by PLD",
        0.9053,
        1e-4,
        LIBRARY,
        lambda: noise_for(PAIRS, target_epsilon=3.0),
    ),
    (
        *("pairs, z by RDP", 0.9595, 1e-4, LIBRARY),
        lambda: noise_for(PAIRS, target_epsilon=3.0, accountant="rdp"),
    ),
    (
        "shuffle, 1",
        32.243,
        1e-3,
        GAUSS,
        lambda: gaussian.of_release(shuffled(), delta=5e-4),
    ),
    (
        "shuffle, 0.5",
        95.173,
        1e-3,
        GAUSS,
        lambda: gaussian.of_release(shuffled(0.5), delta=5e-4),
    ),
    ("Algorithm 1, N 8", 581.0, 0.1, GAUSS, lambda: account(mechanism()).epsilon),
    (
        *("Algorithm 1, z / sigma_eff", 5.66, 1e-2, "2 sqrt(8)"),
        lambda: 1 / mechanism().effective_noise_multiplier_at(0),
    ),
    ("best of 10, geometric", 8.973, 1e-3, SELECTION, lambda: best_of(10, "geometric")),
    (
        "best of 48, logarithmic",
        9.115,
        1e-3,
        SELECTION,
        lambda: best_of(48, "logarithmic"),
    ),
    (
        *(
            "ceiling of an audit, delta 1e-5",
            6.04,
            1e-2,
            "Steinke, Nasr & Jagielski 2023",
        ),
        lambda: epsilon_lower_bound(1_300, 1_300, 1_300, delta=1e-5),
    ),
    (
        *(
            "ceiling of an audit, delta 5e-4",
            4.25,
            1e-2,
            "Steinke, Nasr & Jagielski 2023",
        ),
        lambda: epsilon_lower_bound(1_300, 1_300, 1_300, delta=5e-4),
    ),
    (
        *("replace one, n 2,600", 7.07, 1e-2, LIBRARY),
        lambda: (
            account(mechanism("dp_sgd", num_records=2_600)).epsilon_replace_one or 0.0
        ),
    ),
    (
        *("full batch, sigma 4.649, 60 steps", 8.000, 1e-3, GAUSS),
        lambda: gaussian.of_release(shuffled(4.649, epochs=60), delta=1e-5),
    ),
    (
        *("full batch, as Poisson of rate 1", 8.000, 1e-3, LIBRARY),
        lambda: pld.of_release(
            training(sampled(4.649, steps=60, rate=1.0)), delta=1e-5
        ),
    ),
    ("ATIS, one trial", 1.37, 1e-2, LIBRARY, lambda: account(ATIS).epsilon),
    (
        *("ATIS, 20 trials", 7.43, 1e-2, LIBRARY),
        lambda: certify([release(ATIS)] * 20, delta=1e-5).epsilon,
    ),
    (
        *("ATIS, best of 20, geometric", 3.34, 1e-2, SELECTION),
        lambda: selection.of_releases(
            [release(ATIS)], delta=1e-5, number=Number(law="geometric", mean=20)
        ),
    ),
    (
        "30 epochs, tpr at 1 %",
        0.1165,
        2e-4,
        RISK,
        lambda: account(ONE_RECORD).max_tpr_1pct,
    ),
    (
        "30 epochs, tpr at 0.1 %",
        0.0263,
        2e-4,
        RISK,
        lambda: account(ONE_RECORD).max_tpr_01pct,
    ),
    (
        "30 epochs, advantage",
        0.4139,
        1e-4,
        RISK,
        lambda: account(ONE_RECORD).max_advantage,
    ),
    ("delta, few records", 1e-5, 0, "the rule", lambda: default_delta(4_478)),
    ("delta, many records", 1e-7, 0, "1 / (10 n)", lambda: default_delta(1_000_000)),
]


@pytest.mark.parametrize(
    ("expected", "last_digit", "figure"),
    [(value, digit, figure) for _, value, digit, _, figure in VALUES],
    ids=[f"{what} ({source})" for what, _, _, source, _ in VALUES],
)
def test_the_value_is_reproduced(expected, last_digit, figure):
    """To one unit of the last digit that the source gives."""
    assert figure() == pytest.approx(expected, abs=1.001 * last_digit, rel=1e-12)

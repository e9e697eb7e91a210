"""The meaning of a trial's claim, from the accountant's whole privacy profile."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from _mechanisms import mechanism
from dp_accounting import ComposedDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from tests.accountants.outside import events_of
from trainables.cards.card import make, read, with_sweep
from trainables.cards.page import to_markdown
from trainables.dp.accounting import library, pld
from trainables.dp.accounting.certification import certify, meaning_of, with_risk
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.composition import Account, RdpFilter
from trainables.dp.accounting.privacy_semantics import meaning
from trainables.dp.accounting.releases import release
from trainables.dp.accounting.rounding import percent, risk_sentences

CENTRAL = {"noise_calibration": "central", "microbatch_size": 1}


def test_shuffled_epochs_are_one_gaussian_mechanism():
    summary = account(mechanism(noise_multiplier=10.0, **CENTRAL))
    mu = math.sqrt(30) * 2 / 10  # sensitivity 2 C under replace-one
    assert summary.gaussian_mu == pytest.approx(mu, rel=1e-6)
    for allowed, fpr in ((summary.max_tpr_1pct, 0.01), (summary.max_tpr_01pct, 0.001)):
        best = norm.cdf(norm.ppf(fpr) + mu)  # of any test (Dong, Roth & Su 2022)
        assert best * (1 - 1e-12) <= allowed <= best * (1 + 1e-9)


@pytest.mark.parametrize("sampling", ["poisson", "full"])
def test_a_histogram_beside_the_steps_is_a_part_of_the_meaning(sampling):
    """The library's pairs of both together allow it: the least of delta + e^epsilon a
    and 1 - e^-epsilon (1 - delta - a) (Kairouz, Oh & Viswanath 2015).
    """
    steps = mechanism("dp_sgd", sampling=sampling, epochs=3, noise_multiplier=4.0)
    built = replace(steps, histogram_noise_multiplier=2.0)
    both = PLDAccountant(value_discretization_interval=1e-3)
    both.compose(ComposedDpEvent(events_of([release(built)])))
    pairs = [(epsilon / 10, both.get_delta(epsilon / 10)) for epsilon in range(71)]
    found = account(built)
    for allowed, fpr in ((found.max_tpr_1pct, 0.01), (found.max_tpr_01pct, 0.001)):
        bounds = [delta + fpr * math.exp(epsilon) for epsilon, delta in pairs]
        bounds += [
            1 - math.exp(-epsilon) * (1 - delta - fpr) for epsilon, delta in pairs
        ]
        assert allowed == pytest.approx(min(bounds), rel=1e-2)


def test_a_poisson_claim_allows_more_than_any_test_gains():
    """Against the best test of two steps, drawn 2 million times. The room is six
    standard errors of the threshold's false-positive rate: false alarm below 10^-8.
    """
    built = mechanism("dp_sgd", num_records=128, epochs=1, batch=64, delta=1e-5)
    assert built.steps == 2
    one = account(built.first(1))
    rng = np.random.default_rng(0)
    draws, q = 2_000_000, 0.5

    def log_ratio(x):
        """Of two steps, for a record that moves the sum by C with probability q; sigma
        is 1.
        """
        return np.log(1 - q + q * np.exp(x - 0.5)).sum(axis=1)

    out = log_ratio(rng.normal(size=(draws, 2)))
    member = log_ratio(rng.normal(size=(draws, 2)) + (rng.random((draws, 2)) < q))
    for allowed, fpr in ((one.max_tpr_1pct, 0.01), (one.max_tpr_01pct, 0.001)):
        gained = float((member > np.quantile(out, 1 - fpr)).mean())
        assert 0.7 * allowed < gained <= allowed * (1 + 6 / math.sqrt(fpr * draws))


@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd"])
@pytest.mark.parametrize("z", [0.05, 0.5, 2.0])
def test_the_profile_is_sharper_than_its_point(engine, z):
    built = mechanism(engine, noise_multiplier=z, epochs=3)
    exact, planned = account(built), account(built, exact=False)
    point = meaning(exact.epsilon, delta=built.delta)
    assert exact.gaussian_mu == point.gaussian_mu <= planned.gaussian_mu
    for name in RISKS:
        least = getattr(exact, name)
        assert least <= getattr(point, name)
        quick = getattr(planned, name)
        assert least <= quick * (1 + 1e-8)
        assert quick <= getattr(meaning(planned.epsilon, delta=built.delta), name)
    if engine == "dp_sgd" and z == 0.5:
        assert exact.max_tpr_1pct < 0.9 * point.max_tpr_1pct


# privacy.md, section 11: closed forms, and riskcal 1.5.1 on dp-accounting 0.6.
GAUSSIANS = [  # mu; TPR at 1 % and 0.1 % FPR, advantage
    (0.5, 0.0339, 0.0048, 0.1974),
    (1.0, 0.0924, 0.0183, 0.3829),
    (1.666, 0.2545, 0.0772, 0.5952),
    (2.0, 0.3721, 0.1378, 0.6827),
]
SAMPLED = [  # n 2,560, B 64, 30 epochs: noise multiplier, and the same
    (1.0, 0.1165, 0.0263, 0.4139),
    (2.0, 0.0315, 0.0044, 0.1815),
]
RISKS = ("max_tpr_1pct", "max_tpr_01pct", "max_advantage")


@pytest.mark.parametrize("row", GAUSSIANS)
def test_the_risk_of_a_gaussian_mechanism_is_its_closed_form(row):
    mu, *values = row
    expected = dict(zip(RISKS, values, strict=True))
    summary = account(
        mechanism("dp_sgd", sampling="full", epochs=1, noise_multiplier=1 / mu)
    )
    exact = (
        *(norm.cdf(norm.ppf(fpr) + mu) for fpr in (0.01, 0.001)),
        2 * norm.cdf(mu / 2) - 1,
    )
    for name, value in zip(RISKS, exact, strict=True):
        found = getattr(summary, name)
        assert value * (1 - 1e-12) <= found <= value * (1 + 1e-9)
        assert found == pytest.approx(expected[name], abs=1e-4)


@pytest.mark.parametrize("row", SAMPLED)
def test_the_risk_of_sampled_steps_is_that_of_all_pairs(row):
    noise, *values = row
    expected = dict(zip(RISKS, values, strict=True))
    built = mechanism(
        "dp_sgd", num_records=2_560, delta=5e-4, noise_multiplier=noise, epochs=30
    )
    exact, planned = account(built), account(built, exact=False)
    for name, value in expected.items():
        found, quick = getattr(exact, name), getattr(planned, name)
        assert value - 5e-5 <= found <= value + 1e-3  # the value is rounded
        assert found <= quick <= value + 4e-3  # of a plan, from a coarser grid


def test_the_quick_profile_is_the_librarys_up_to_its_rounding():
    steps = release(mechanism("dp_sgd", epochs=3, noise_multiplier=0.8)).steps
    grid = pld.interval(steps, delta=1e-5, points=pld.FINE)
    at = (0.0, 0.013, 0.5, 3.0, 7.0)
    quick = pld.profile(steps, grid=grid, epsilons=at)
    for (_, own), (_, least) in zip(
        quick, library.profile(steps, grid=grid, epsilons=at), strict=True
    ):
        assert least * (1 - 1e-10) <= own <= least * (1 + 1e-6) + 1e-9


def test_the_risk_of_a_composition_is_that_of_one_mechanism():
    """Twice as many steps in one trial, or two trials."""
    one, both = (
        release(mechanism("dp_sgd", epochs=epochs, noise_multiplier=2.0))
        for epochs in (3, 6)
    )
    found = certify([one, one], delta=1e-5)
    together = meaning_of([one, one], found)
    assert together == meaning_of(both, certify(both, delta=1e-5))
    assert together.max_tpr_1pct > 1.15 * meaning_of(one, found).max_tpr_1pct


def test_of_two_units_the_certified_pair_alone_is_known():
    one = release(mechanism("dp_sgd", epochs=3, noise_multiplier=2.0))
    other = replace(one, neighboring_relation="replace_one")
    found = certify([one, other], delta=1e-5)
    assert meaning_of([one, other], found) == meaning(found.epsilon, delta=1e-5)


def test_a_total_says_its_risk_and_that_of_a_filter_none():
    """The pair of an RDP filter alone would allow nearly everything."""
    one = release(mechanism("dp_sgd", epochs=1, noise_multiplier=2.0))
    found = certify([one, one], delta=1e-5)
    assert found.max_tpr_1pct is None
    known = with_risk(found, [one, one]).max_tpr_1pct
    assert known == meaning_of([one, one], found, effort="total").max_tpr_1pct < 0.1
    account_of = Account(RdpFilter.of(8.0, delta=1e-5))
    account_of.put("trial", one, delta=1e-5)
    assert with_risk(account_of.total(), [one]).max_tpr_1pct is None
    unlimited = replace(found, epsilon=math.inf)
    assert with_risk(unlimited, [one, one]).max_tpr_1pct is None


def test_the_card_says_it_in_a_sentence_and_one_of_before_opens():
    built = mechanism("dp_sgd", epochs=1, noise_multiplier=2.0)
    card = make(built, account(built), trial_id="t", corpus="atis")
    total = with_risk(certify([release(built)] * 2, delta=1e-5), [release(built)] * 2)
    page = to_markdown(with_sweep(card, total=asdict(total), refused=""))
    for risk in (card.max_tpr_1pct, total.max_tpr_1pct):
        [sentence] = risk_sentences(risk)
        assert sentence in page
    assert f"| {percent(card.max_advantage)} |" in page
    before = card.to_dict()
    del before["max_advantage"]
    opened = read(before, where="a file")
    assert opened.max_advantage is None
    assert "| largest TPR - FPR | - |" in to_markdown(opened)

"""Noise for what an attacker may find, against closed forms and privacy.md, 11."""

import math
from dataclasses import replace

import pytest
from _mechanisms import mechanism
from scipy.stats import norm

from tests.refusals import refused
from trainables.config.calibrate import resolve
from trainables.config.trial import parse
from trainables.dp.accounting.calibration import noise_for_risk
from trainables.dp.accounting.choose import account
from trainables.dp.engines.configs import Target

STEPS = 40


def full(**privacy):
    return mechanism("dp_sgd", sampling="full", epochs=STEPS, delta=1e-5, **privacy)


@pytest.mark.parametrize(
    ("target", "mu", "noise", "epsilon"),
    [
        ({"target_tpr": 0.05}, 0.68149, 9.2804, 2.823),
        ({"target_advantage": 0.2}, 0.50669, math.sqrt(STEPS) / 0.50669, 2.023),
    ],
)
def test_full_batches_have_the_noise_of_the_closed_form(target, mu, noise, epsilon):
    z = noise_for_risk(full(), Target(**target))
    found = account(full(noise_multiplier=z))
    power = norm.cdf(norm.ppf(0.01) + math.sqrt(STEPS) / z)
    advantage = 2 * norm.cdf(math.sqrt(STEPS) / z / 2) - 1
    reached, limit = (power, 0.05) if "target_tpr" in target else (advantage, 0.2)
    assert limit * (1 - 1e-4) < reached <= limit  # never above, and nothing is wasted
    assert math.sqrt(STEPS) / z == pytest.approx(mu, abs=1e-4)
    assert z == pytest.approx(noise, rel=1e-4)
    assert found.epsilon == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize(
    "target",
    [{"target_tpr": 0.03}, {"target_advantage": 0.25}, {"target_tpr": 0.6}],
)
def test_sampled_steps_meet_their_target_by_the_certified_figures(target):
    built = mechanism("dp_sgd", epochs=3)
    z = noise_for_risk(built, Target(**target))
    found, more = (
        account(replace(built, noise_multiplier=each)) for each in (z, 0.999 * z)
    )
    (name, limit), *_ = target.items()
    figure = {"target_tpr": "max_tpr_1pct", "target_advantage": "max_advantage"}[name]
    assert 0.99 * limit < getattr(found, figure) <= limit < getattr(more, figure)


def test_another_rate_of_false_alarms():
    z = noise_for_risk(full(), Target(target_tpr=0.3, at_fpr=0.1))
    power = norm.cdf(norm.ppf(0.1) + math.sqrt(STEPS) / z)
    assert 0.3 * (1 - 1e-4) < power <= 0.3


def test_less_noise_is_needed_than_for_the_epsilon_that_allows_as_much():
    config = {
        "engine": "dp_sgd",
        "privacy": {"sampling": "full", "delta": 1e-5},
        "training": {"steps": STEPS},
        "data": {"num_records": 2_560},
    }

    def noise(target):
        config["privacy"]["noise_multiplier"] = target
        return resolve(parse(config), num_records=2_560)[1].noise_multiplier

    # The pair (log 5, 0) alone allows 5 % at 1 % false alarms.
    assert noise({"target_tpr": 0.05}) < 0.7 * noise({"target_epsilon": math.log(5)})
    assert parse(config).id != parse(config | {"privacy": {}}).id


def test_targets_that_no_noise_reaches_and_accountants_without_pairs():
    built = replace(mechanism("dp_sgd"), histogram_noise_multiplier=0.5)
    with refused("target_tpr=0.05: a noised histogram alone allows more"):
        noise_for_risk(built, Target(target_tpr=0.05))
    with refused("no noise multiplier reaches target_advantage=0.2: .*noise key"):
        noise_for_risk(full(reproducible_noise=True), Target(target_advantage=0.2))
    with refused("expected privacy.accountant gaussian or pld or rdp, or none, with"):
        noise_for_risk(full(), Target(target_tpr=0.05), accountant="prv")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"target_tpr": 0.005}, "expected target_tpr above at_fpr=0.01, which a guess"),
        ({"target_tpr": 0.01}, "expected target_tpr above at_fpr=0.01, which a guess"),
        ({"target_tpr": 1.0}, "target_tpr: input should be less than 1, got 1"),
        ({"target_advantage": 0.0}, "target_advantage: input should be greater than 0"),
        ({}, "expected one of target_epsilon, target_tpr and target_advantage"),
        ({"target_tpr": 0.1, "target_epsilon": 1.0}, "expected one of target_epsilon"),
        ({"target_tpr": 0.1, "at_fpr": 1e-6}, "at_fpr: input should be greater than"),
        ({"target_epsilon": 1.0, "at_fpr": 0.1}, "at_fpr"),
    ],
)
def test_targets_that_mean_nothing(target, words):
    with refused(words):
        parse({"engine": "dp_sgd", "privacy": {"noise_multiplier": target}})


def test_a_target_of_epsilon_is_written_as_before():
    assert Target(target_epsilon=8.0).model_dump() == {"target_epsilon": 8.0}
    assert Target(target_tpr=0.05).model_dump() == {"target_tpr": 0.05, "at_fpr": 0.01}

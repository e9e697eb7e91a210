"""Advice claims no effect that cannot be: on epsilon, from few trials, or of two axes at once."""

from dataclasses import replace

import numpy as np
import pytest

from search_spaces.paths import set_all
from sweep.results.advice import advice, moves_epsilon
from sweep.results.standing import standings
from sweep.store.plans import label
from tests.sweep.results.test_select import record
from trainables import accountants
from trainables.config import parse

Z, RATE, SIZE = "privacy.noise_multiplier", "training.learning_rate", "model.hidden_size"
BASE = {
    "engine": "dp_sgd",
    "data": {"name": "atis"},
    "model": {"name": "clc"},
    "privacy": {"noise_multiplier": 1.0, "sampling": "poisson"},
    "training": {"epochs": 2, "expected_batch_size": 100},
}
TRIED = {
    Z: (1.0, 2.0),
    RATE: (0.1, 0.2),
    SIZE: (32, 64),
    "privacy.max_grad_norm": (0.5, 1.0),
    "privacy.delta": (1e-5, 1e-6),
    "training.epochs": (2, 4),
    "training.expected_batch_size": (100, 200),
    "training.optimizer": ("adam", "momentum"),
    "training.seed": (0, 1),
    "evaluation.bootstrap_samples": (0, 10),
}


def trial(number, values, ser, **base):
    """A finished trial with the epsilon that its config has."""
    config = parse(set_all(BASE, base.items(), values.items()))
    _, mechanism = accountants.resolve(config, num_records=1000)
    epsilon = accountants.account(mechanism, exact=False).epsilon
    made = record(f"t{number}", ser=ser, validation_ser=ser, epsilon=epsilon)
    plan = replace(
        made.plan,
        origin=config,
        values=values,
        num_records=1000,
        variant="v",
    )
    return replace(made, plan=plan)


def said(records):
    return advice(records, standings(records))


@pytest.mark.parametrize("path", TRIED)
@pytest.mark.parametrize("noise", [1.0, {"target_epsilon": 8}])
def test_an_axis_moves_epsilon_where_the_accountants_figure_does(path, noise):
    values = TRIED[path]
    records = [trial(n, {path: v}, 0.5, **{Z: noise}) for n, v in enumerate(values)]
    first, second = (float(each.metrics["epsilon"] or 0) for each in records)
    assert moves_epsilon(records, path) == (abs(first / second - 1) > 0.01)


@pytest.mark.parametrize("seed", range(4))
def test_no_chance_of_a_random_search_is_an_effect_on_epsilon(seed):
    """The epsilon differs from trial to trial, and so along every axis."""
    random = np.random.default_rng(seed)
    records = []
    for number in range(24):
        values = {Z: 2.0 ** random.integers(0, 4), RATE: 10.0 ** -random.uniform(1, 4)}
        values[SIZE] = int(random.choice([32, 64, 128]))
        ser = abs(np.log10(values[RATE]) + 1) + values[SIZE] / 1e3 + 0.001 * values[Z]
        records.append(trial(number, values, float(ser)))
    sentences = said(records)
    assert sentences
    for sentence in sentences:
        assert "epsilon" not in sentence or sentence.startswith(label(Z)), sentence


def test_where_noise_and_batch_differ_at_once_no_price_is_the_noise_s_alone():
    random = np.random.default_rng(0)
    batches = random.permutation([20, 40, 50, 100, 125, 200, 250, 500])
    records = [
        trial(n, {Z: 1.0 + n / 4, "training.expected_batch_size": int(batch)}, 0.1 + n / 100)
        for n, batch in enumerate(batches)
    ]
    [sentence] = [each for each in said(records) if each.startswith("z0: the best")]
    assert sentence.endswith("the smallest value tried, 1: smaller may help, but changes epsilon")


def test_two_axes_that_vary_together_get_no_advice():
    values = [(rate, size) for rate, size in ((0.1, 32), (0.2, 64), (0.4, 128)) for _ in range(4)]
    records = [
        trial(n, {RATE: rate, SIZE: size, Z: 1.0 + n % 4}, rate)
        for n, (rate, size) in enumerate(values)
    ]
    assert not any(label(axis) in each for axis in (RATE, SIZE) for each in said(records))
    alone = [replace(r, plan=replace(r.plan, values={**r.plan.values, SIZE: 32})) for r in records]
    assert any(each.startswith(label(RATE)) for each in said(alone))


def test_too_few_trials_of_a_variant_get_no_advice():
    records = [trial(n, {RATE: 0.1 * (n + 1)}, 0.1 * (n + 1)) for n in range(6)]
    assert any("the smallest value tried" in each for each in said(records))
    few = [replace(r, plan=replace(r.plan, variant=f"v{n // 3}")) for n, r in enumerate(records)]
    assert said(few) == []

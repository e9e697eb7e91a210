"""Configs and spaces have bounds, and refuse implicit conversions to numbers."""

import pytest

from search_spaces import space as spaces
from tests.refusals import refused
from trainables.config import parse

CLC = {"name": "clc"}
TPE = {"search": {"strategy": "tpe", "num_samples": 2}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"training": {"epochs": "3"}}, "training.epochs: expected a whole number, got '3'"),
        (
            {"privacy": {"noise_multiplier": {"target_epsilon": 0}}},
            "privacy.noise_multiplier.target_epsilon: input should be greater than 0, got 0",
        ),
        (
            {"training": {"learning_rate": {"total_noize": 1}}},
            "unknown field training.learning_rate.total_noize: did you mean total_noise?",
        ),
        (
            {"training": {"learning_rate": -1}},
            "training.learning_rate: input should be greater than 0, got -1",
        ),
        ({"training": {"epochs": 1.5}}, "training.epochs: expected a whole number, got 1.5"),
        ({"training": 5}, "training: expected a mapping, got 5"),
        ({"training": {"epochs": True}}, "training.epochs: expected a whole number, got True"),
        ({"training": {"learning_rate": "1e-3"}}, "learning_rate: expected a number"),
        ({"training": {"seed": False}}, "training.seed: expected a whole number, got False"),
        (
            {"training": {"steps": "5"}, "privacy": {"sampling": "full"}},
            "steps: expected a",
        ),
        ({"privacy": {"noise_multiplier": True}}, "noise_multiplier: expected a number"),
        ({"privacy": {"noise_multiplier": {"target_epsilon": "8"}}}, "target_epsilon: expected a"),
        ({"privacy": {"noise_decay": {"kind": "linear", "tau": "1"}}}, "tau: expected a number"),
        ({"privacy": {"secure_noise": "yes"}}, "secure_noise: expected true or false, got 'yes'"),
        ({"privacy": {"secure_noise": 1}}, "secure_noise: expected true or false, got 1"),
        ({"model": {"name": "features", "layers": [0, True]}}, "layers.1: expected a whole number"),
        ({"model": {**CLC, "char_dim": 2**64}}, "model.char_dim: input should be less than"),
        ({"model": {**CLC, "num_layers": 10**40}}, "model.num_layers"),
        ({"model": {**CLC, "char_dim": 10**5_000}}, "model.char_dim.*an integer of 16610 bits"),
        ({"training": {"epochs": 10**8}}, "training.epochs: .*100000"),
        ({"training": {"seed": 2**70}}, "training.seed"),
        ({"data": {"num_records": 10**30}}, "data.num_records"),
        (
            {"privacy": {"noise_multiplier": 1e300}},
            "noise_multiplier: input should be less",
        ),
        ({"privacy": {"max_grad_norm": 1e300}}, "max_grad_norm"),
        ({"training": {"optimizer": "x" * 10**6}}, "expected optimizer to be one of"),
        ({"x" * 10**6: 1}, "unknown field"),
        ({"data": {"name": "y" * 10**6}}, "expected data.name"),
    ],
)
def test_a_config_refuses_what_is_no_number_or_too_large(fields, words):
    with refused(words) as caught:
        parse(fields)
    assert len(str(caught.value)) < 2_100


def test_whole_floats_and_null_are_what_they_were():
    found = parse({"training": {"epochs": 3.0}, "privacy": {"delta": None}})
    assert found.training.epochs == 3
    assert found == parse({"training": {"epochs": 3}})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"repeats": ["1", "2"]}, "repeats.0: expected a whole number, got '1'"),
        ({"repeats": [True]}, "repeats.0: expected a whole number"),
        ({"base": {"task": {}}, **TPE}, "expected task to be one of nlu, synthesis, got {}"),
        (
            {"override": {"task": [1]}, **TPE},
            r"expected task to be one of nlu, synthesis, got \[1\]",
        ),
        ({"budget": {"epsilon": "8"}}, "budget.epsilon: expected a number, got '8'"),
        ({"budget": {"trials": True}}, "budget.trials: expected a whole number"),
        ({"resources": {"slots": "4"}}, "resources.slots: expected a whole number, got '4'"),
        ({"resources": {"slots": 10**9}}, "resources.slots: .*10000"),
        ({"resources": {"cpus_per_worker": 2**70}}, "resources.cpus_per_worker"),
        ({"axes": {"training.epochs": {"range": {"low": "1", "high": 3}}}}, "expected a number"),
        (
            {"axes": {"training.epochs": {"range": {"low": 1, "high": 3, "num": 10**9}}}},
            "num: .*100000",
        ),
        ({"axes": {"training.epochs": {"range": {"low": 1, "high": 3, "log": "no"}}}}, "true or"),
        ({"variants": [{"name": "a", "baseline": "false"}]}, "true or false, got 'false'"),
        (
            {"search": {"num_samples": "7", "strategy": "random"}},
            "num_samples: expected a wh",
        ),
    ],
)
def test_a_space_refuses_what_is_no_number_or_too_large(fields, words):
    with refused(words):
        spaces.parse({"name": "a", "base": {"engine": "sgd"}, **fields})

"""A refusal of a value of any size is short. That numbers have bounds, and are not made
of text, is among the refusals of `sweep plan`
(`tests/sweep/commands/refusals/plan.yaml`).
"""

import pytest

from tests.refusals import refused
from trainables.config.trial import parse


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"model": {"name": "clc", "char_dim": 10**5_000}},
            "model.char_dim.*an integer of 16610 bits",
        ),
        ({"training": {"optimizer": "x" * 10**6}}, "expected optimizer to be one of"),
        ({"x" * 10**6: 1}, "unknown field"),
        ({"data": {"name": "y" * 10**6}}, "expected data.name"),
    ],
)
def test_a_refusal_of_a_long_value_is_short(fields, words):
    with refused(words) as caught:
        parse(fields)
    assert len(str(caught.value)) < 2_100


def test_whole_floats_and_null_are_what_they_were():
    found = parse({"training": {"epochs": 3.0}, "privacy": {"delta": None}})
    assert found.training.epochs == 3
    assert found == parse({"training": {"epochs": 3}})

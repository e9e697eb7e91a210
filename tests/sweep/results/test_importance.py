"""Which settings mattered: by trials that count, whatever their order and units."""

import math
import random
from dataclasses import replace

import pytest

from sweep.results.importance import FEWEST, importance, varied_axes
from tests.sweep.results.test_select import record

RATE, SIZE, SEED = "training.learning_rate", "model.hidden_size", "training.seed"


def trial(number, ser, *, baseline=False, **values):
    made = record(f"t{number}", validation_ser=ser, baseline=baseline)
    return replace(made, plan=replace(made.plan, variant="v", values=values))


def grid(figure):
    """Twenty-five trials over two settings, by the figure that each has."""
    points = [(rate / 10, size) for rate in range(1, 6) for size in range(1, 6)]
    return [
        trial(n, figure(rate, size), **{RATE: rate, SIZE: size})
        for n, (rate, size) in enumerate(points)
    ]


def test_a_figure_that_nothing_moves_has_no_share():
    found = importance(grid(lambda rate, size: 0.5))
    assert set(found.shares.values()) == {0.0}


def test_the_order_of_the_trials_and_the_unit_of_a_setting_change_nothing():
    """A forest reads the order of values; only its thresholds are rounded otherwise."""
    records = grid(lambda rate, size: 3 * rate + size)
    found = importance(records)
    scaled = [
        replace(
            each,
            plan=replace(
                each.plan,
                values={**each.plan.values, RATE: math.exp(10 * each.plan.values[RATE])},
            ),
        )
        for each in records
    ]
    again = importance(scaled)
    assert again.shares == pytest.approx(found.shares, abs=0.01)
    random.Random(0).shuffle(records)
    shuffled = importance(records)
    assert list(shuffled.shares) == list(found.shares)


def test_baselines_and_trials_without_a_finite_figure_do_not_count():
    records = [trial(n, n / 10, **{RATE: n / 10}) for n in range(FEWEST)]
    others = [
        trial(90, 5.0, baseline=True, **{RATE: 5.0}),
        trial(91, math.inf, **{RATE: 6.0}),
        trial(92, None, **{RATE: 7.0}),
    ]
    found = importance([*records, *others])
    assert found is not None
    assert found == importance(records)


def test_an_axis_is_what_varies_and_a_seed_is_none():
    records = [trial(n, 0.5, **{RATE: 0.1, SIZE: n, SEED: n}) for n in range(3)]
    assert varied_axes(records) == [SIZE]
    lacking = replace(records[0], plan=replace(records[0].plan, values={SIZE: 0}))
    assert varied_axes([lacking, records[1]]) == [SIZE, RATE], "a missing value is one"
    named = replace(records[0], plan=replace(records[0].plan, variant="w"))
    assert varied_axes([named, *records])[0] == "variant"


def test_words_are_settings_too():
    """Such as models, whose order says nothing."""
    records = [
        trial(n, 0.1 if name == "clc" else 0.9, **{"model.name": name, RATE: n / 10})
        for n, name in enumerate(4 * ["clc", "bert", "features"])
    ]
    found = importance(records)
    assert next(iter(found.shares)) == "model.name"

"""Which settings mattered and what to try next: by trials that count, whatever their
order and units, and no effect that cannot be.
"""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from sweep.results.importance import FEWEST, advice, importance, varied_axes
from tests.sweep.results.test_select import record

RATE, SIZE, SEED = "training.learning_rate", "model.hidden_size", "training.seed"
C, Z = "privacy.max_grad_norm", "privacy.noise_multiplier"


def trial(
    number, ser, *, baseline=False, data="atis", epsilon=8.0, variant="v", **values
):
    fields = {
        "baseline": baseline,
        "data": data,
        "epsilon": epsilon,
        "variant": variant,
    }
    return record(f"{data}{number}", validation_ser=ser, values=values, **fields)


def said(records, *, high=-1.0):
    """The advice where each change from the second to the first has this upper bound."""
    return advice(records, lambda first, second: {"delta_ser_percent_high": high})


def grid(figure, **fields):
    """Twenty-five trials over two settings, by the figure that each has."""
    points = [(rate / 10, size) for rate in range(1, 6) for size in range(1, 6)]
    return [
        trial(n, figure(rate, size), **{RATE: rate, SIZE: size}, **fields)
        for n, (rate, size) in enumerate(points)
    ]


def changed(records, path, value_of):
    """The trials with another value of an axis, a function of the trial's values."""
    return [
        replace(r, plan=replace(r.plan, values=values | {path: value_of(values)}))
        for r in records
        for values in [r.plan.values]
    ]


def test_the_axis_that_moves_the_metric_is_the_one_that_matters():
    found = importance(grid(lambda rate, size: rate + 0.001 * size))
    assert list(found.shares) == [RATE, SIZE]
    assert found.shares[RATE] > 0.9
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.explained > 0.5


def test_chance_explains_nothing():
    """The shares of noise add up to 1 as well, so none are given."""
    noise = np.random.default_rng(0)
    found = importance(grid(lambda rate, size: float(noise.random())))
    assert found.explained < 0.2
    assert found.shares == {}


def test_a_figure_that_nothing_moves_has_no_share():
    assert set(importance(grid(lambda rate, size: 0.5)).shares.values()) == {0.0}


def test_the_order_of_the_trials_and_the_unit_of_a_setting_change_nothing():
    """A forest reads the order of values; only its thresholds are rounded otherwise."""
    records = grid(lambda rate, size: 3 * rate + size)
    found = importance(records)
    again = importance(
        changed(records, RATE, lambda values: math.exp(10 * values[RATE]))
    )
    assert again.shares == pytest.approx(found.shares, abs=0.01)
    random.Random(0).shuffle(records)
    assert list(importance(records).shares) == list(found.shares)


def test_baselines_and_trials_without_a_finite_figure_do_not_count():
    records = [trial(n, n / 10, **{RATE: n / 10}) for n in range(FEWEST)]
    others = [
        trial(90, 5.0, baseline=True, **{RATE: 5.0}),
        trial(91, math.inf, **{RATE: 6.0}),
        trial(92, None, **{RATE: 7.0}),
    ]
    found = importance([*records, *others])
    assert found.shares
    assert found == importance(records)
    assert not importance(records[1:]).shares


def test_an_axis_is_what_varies_and_a_seed_is_none():
    records = [trial(n, 0.5, **{RATE: 0.1, SIZE: n, SEED: n}) for n in range(3)]
    assert varied_axes(records) == [SIZE]
    lacking = trial(3, 0.5, **{SIZE: 0})
    assert varied_axes([lacking, records[1]]) == [SIZE, RATE], "a missing value is one"
    assert varied_axes([trial(4, 0.5, variant="w"), *records])[0] == "variant"


def test_words_are_settings_too():
    """Such as models, whose order says nothing."""
    records = [
        trial(n, 0.1 if name == "clc" else 0.9, **{"model.name": name, RATE: n / 10})
        for n, name in enumerate(4 * ["clc", "bert", "features"])
    ]
    assert next(iter(importance(records).shares)) == "model.name"


def test_the_best_at_the_edge_of_what_was_tried_asks_for_more():
    small = "lr: the best trial has the smallest value tried, 0.1: try smaller"
    assert said(grid(lambda rate, size: rate + (size - 3) ** 2)) == [small]
    assert said(grid(lambda rate, size: (rate - 0.3) ** 2 + (size - 3) ** 2)) == []
    assert said(grid(lambda rate, size: rate)[:3]) == [], "too few to say"


def test_a_difference_within_its_interval_is_no_advice():
    records = grid(lambda rate, size: rate + (size - 3) ** 2)
    assert said(records, high=0.5) == []
    assert advice(records, lambda first, second: {}) == []


def test_the_best_trial_of_each_corpus_is_named_with_it():
    on_atis = grid(lambda rate, size: rate + (size - 3) ** 2)
    on_snips = grid(lambda rate, size: -rate + (size - 3) ** 2, data="snips")
    assert said([*on_atis, *on_snips]) == [
        "lr: the best trial on atis has the smallest value tried, 0.1: try smaller",
        "lr: the best trial on snips has the largest value tried, 0.5: try larger",
    ]


def test_advice_never_moves_epsilon():
    """The smallest noise makes the fewest errors, and the largest epsilon."""
    noises, norms = (0.1, 0.2, 0.4), (0.5, 1.0, 2.0, 4.0)
    records = [
        trial(f"{z}-{c}", z + c, epsilon=1000 / z, **{Z: z, C: c})
        for z in noises
        for c in norms
    ]
    assert said(records) == [
        "C: the best trial has the smallest value tried, 0.5: try smaller"
    ]


@pytest.mark.parametrize(
    "pairs",
    [
        [
            (1, 2),
            (2, 4),
            (3, 1),
            (4, 3),
        ],  # of no rank correlation, and each tells the other
        [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4)],  # neither tells the other
    ],
)
def test_two_axes_that_vary_together_get_no_advice(pairs):
    records = [
        trial(
            f"{pair}{c}",
            pair[0],
            **{RATE: pair[0] / 10, SIZE: 32 * pair[1], C: 1.0 + c},
        )
        for pair in pairs
        for c in range(4)
    ]
    assert [each.partition(":")[0] for each in said(records)] == ["C"]
    alone = changed(records, SIZE, lambda values: 32)
    assert [each.partition(":")[0] for each in said(alone)] == ["lr", "C"]


def test_too_few_trials_of_a_variant_get_no_advice():
    for variant, number in (("v", 1), ("v{}", 0)):
        records = [
            trial(
                n,
                0.1 * (n + 1),
                variant=variant.format(n // 3),
                **{RATE: 0.1 * (n + 1)},
            )
            for n in range(6)
        ]
        assert len(said(records)) == number

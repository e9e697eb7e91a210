"""Nearest-neighbour precision (plausibility) and recall (coverage)."""

import numpy as np

from trainables.metrics.text_space import neighbours


def rows(centre, *, seed, number=200):
    noise = np.random.default_rng(seed).normal(size=(number, len(centre)))
    return np.asarray(centre) + 0.05 * noise


def test_text_like_human_text_is_plausible_and_covers_it():
    found = neighbours(rows([1, 0, 0], seed=0), rows([1, 0, 0], seed=1))
    # Two samples of one law: each point lies in some ball of radius r_3 with high probability.
    assert min(found.values()) > 0.9


def test_a_generator_that_knows_one_mode_is_plausible_and_covers_half():
    human = np.concatenate([rows([1, 0, 0], seed=0), rows([0, 1, 0], seed=1)])
    found = neighbours(rows([1, 0, 0], seed=2, number=400), human)
    assert found["neighbour_precision"] > 0.9
    assert 0.4 < found["neighbour_recall"] < 0.5001


def test_text_elsewhere_is_neither():
    found = neighbours(rows([0, 0, 1], seed=0), rows([1, 0, 0], seed=1))
    assert [*found.values()] == [0.0, 0.0]


def test_repeated_rows_are_inside_their_own_ball_of_radius_zero():
    same = np.ones((10, 3))
    assert [*neighbours(same, same).values()] == [1.0, 1.0]

"""Nearest-neighbour precision (plausibility) and recall (coverage)."""

import numpy as np

from trainables.metrics import neighbours


def rows(centre, *, seed, number=200):
    noise = np.random.default_rng(seed).normal(size=(number, len(centre)))
    return np.asarray(centre) + 0.05 * noise


def test_text_like_human_text_is_plausible_and_covers_it():
    found = neighbours.of_features(rows([1, 0, 0], seed=0), rows([1, 0, 0], seed=1))
    # Two samples of one law: each point lies in some ball of radius r_3 with high probability.
    assert found.precision > 0.9
    assert found.recall > 0.9


def test_a_generator_that_knows_one_mode_is_plausible_and_covers_half():
    human = np.concatenate([rows([1, 0, 0], seed=0), rows([0, 1, 0], seed=1)])
    found = neighbours.of_features(rows([1, 0, 0], seed=2, number=400), human)
    assert found.precision > 0.9
    assert 0.4 < found.recall < 0.5001


def test_text_elsewhere_is_neither():
    found = neighbours.of_features(rows([0, 0, 1], seed=0), rows([1, 0, 0], seed=1))
    assert (found.precision, found.recall) == (0.0, 0.0)


def test_exchanging_the_sides_exchanges_the_figures():
    one, other = rows([1, 0, 0], seed=0, number=50), rows([1, 0.1, 0], seed=1, number=80)
    there, back = neighbours.of_features(one, other), neighbours.of_features(other, one)
    assert (there.precision, there.recall) == (back.recall, back.precision)


def test_repeated_rows_are_inside_their_own_ball_of_radius_zero():
    same = np.ones((10, 3))
    assert neighbours.of_features(same, same) == neighbours.Coverage(precision=1.0, recall=1.0)

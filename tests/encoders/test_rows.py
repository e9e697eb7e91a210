"""Rows that heads read: a function of one record and of public moments alone."""

import numpy as np
import pytest
import torch

from trainables.encoders.moments import Moments, moments_of
from trainables.encoders.rows import (
    LayerStates,
    features,
    join_states,
    whitening,
    with_neighbors,
)


def states(count, *, seed=0):
    torch.manual_seed(seed)
    return torch.randn(count, 3) + 2.0, torch.randn(count, 5)


def test_each_layer_is_centred_and_of_norm_one():
    rows = join_states(states(7))
    for part in (rows[:, :3], rows[:, 3:]):
        torch.testing.assert_close(part.mean(1), torch.zeros(7), atol=1e-6, rtol=0)
        torch.testing.assert_close(part.norm(dim=1), torch.ones(7))


def moments(whole, layers, *, at_once):
    parts = zip(*(state.split(at_once) for state in whole), strict=True)
    tokens, records = moments_of((LayerStates(part, part[::-1]) for part in parts), layers)
    assert (tokens.widths, records.widths) == ((3, 5), (5, 3)) or len(layers) == 1
    return tokens


def test_moments_are_those_of_all_rows_however_they_come():
    whole = states(50)
    found = moments(whole, [0, 1], at_once=20)
    rows = join_states(whole).double().numpy()
    np.testing.assert_allclose(found.mean, rows.mean(0), atol=1e-6)
    np.testing.assert_allclose(found.covariance, np.cov(rows.T, bias=True), atol=1e-6)
    assert (found.widths, found.count) == ((3, 5), 50)
    with pytest.raises(ValueError, match="at least one row"):
        moments_of([], [0])


def test_a_choice_of_layers_is_that_of_their_columns():
    chosen = moments(states(50), [0, 1], at_once=50).of([1])
    alone = moments(states(50), [1], at_once=50)
    np.testing.assert_allclose(chosen.covariance, alone.covariance)


@pytest.mark.parametrize("components", [None, 4])
def test_whitened_rows_have_a_flat_spectrum(components):
    found = moments(states(400), [0, 1], at_once=400)
    white = whitening(found, shrinkage=1e-6, components=components)
    rows = (join_states(states(400)) - white.mean) @ white.root
    covariance = np.cov(rows.numpy().T, bias=True)
    values = np.sort(np.linalg.eigvalsh(covariance))[::-1]
    kept = components or 6  # centring takes one direction of each layer
    np.testing.assert_allclose(values[:kept], 1.0, atol=0.02)
    assert values[kept:].sum() < 0.02


def test_whitening_refuses_what_has_no_meaning():
    given = Moments(np.zeros(2), np.eye(2), (2,), 3)
    for bad in ({"shrinkage": 0.0}, {"shrinkage": 1.0, "components": 3}):
        with pytest.raises(ValueError, match="1 <= components <= 2"):
            whitening(given, **bad)


def test_features_have_norm_one_and_a_zero_row_stays_zero():
    rows = features(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), None)
    torch.testing.assert_close(rows, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_neighbours_end_with_their_record():
    rows = torch.arange(1.0, 6.0).unsqueeze(1)
    found = with_neighbors(rows, torch.tensor([2, 3])) * 3**0.5
    expected = [[1, 0, 2], [2, 1, 0], [3, 0, 4], [4, 3, 5], [5, 4, 0]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32))

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from tests.refusals import refused
from trainables.dp.layers.lstm import BiLstm
from trainables.dp.layers.packing import time_major
from trainables.dp.layers.recorder import plain


@pytest.mark.parametrize("lengths", [[], [2, 0], [-1], [[2, 1]]])
def test_lengths_that_no_records_have_are_refused(lengths):
    with refused("non-empty vector of numbers >= 1"):
        time_major(torch.tensor(lengths))


@pytest.mark.parametrize("lengths", [[4, 1, 6, 6, 2], [1, 1, 1], [7], [1]])
def test_states_and_gradients_equal_torchs(lengths):
    """`plain` leaves a layer to `torch.lstm`, whose gates have another order."""
    torch.manual_seed(0)
    layer, layout = BiLstm(5, 4), time_major(torch.tensor(lengths))
    nn.init.normal_(layer.bias)
    x, weights = (
        torch.randn(sum(lengths), 5, requires_grad=True),
        torch.randn(sum(lengths), 8),
    )
    found = []
    for way in (nullcontext, plain):
        with way():
            states = layer(x, layout)
        found.append(
            [states, *torch.autograd.grad(states, [x, *layer.parameters()], weights)]
        )
    for mine, its in zip(*found, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-5)

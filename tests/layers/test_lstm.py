"""The packed biLSTM against nn.LSTM on packed sequences."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from trainables.layers.lstm import BiLstm
from trainables.layers.packing import time_major


def twin(layer: BiLstm) -> nn.LSTM:
    """nn.LSTM with the same weights; its gates come in the order input, forget, cell, output."""
    hidden = layer.weight_hh.shape[2]
    other = nn.LSTM(layer.weight_ih.shape[2], hidden, bidirectional=True)
    order = torch.cat(
        [
            torch.arange(2 * hidden),
            torch.arange(3 * hidden, 4 * hidden),
            torch.arange(2 * hidden, 3 * hidden),
        ]
    )
    with torch.no_grad():
        for direction, suffix in enumerate(("", "_reverse")):
            getattr(other, f"weight_ih_l0{suffix}").copy_(layer.weight_ih[direction][order])
            getattr(other, f"weight_hh_l0{suffix}").copy_(layer.weight_hh[direction][order])
            getattr(other, f"bias_ih_l0{suffix}").copy_(layer.bias[direction][order])
            getattr(other, f"bias_hh_l0{suffix}").zero_()
    return other


@pytest.mark.parametrize("lengths", [[4, 1, 6, 6, 2], [1, 1, 1], [7], [1]])
def test_states_and_gradients_equal_nn_lstm(lengths: list[int]) -> None:
    torch.manual_seed(0)
    layer = BiLstm(5, 4)
    nn.init.normal_(layer.bias)
    other = twin(layer)
    layout = time_major(torch.tensor(lengths))
    x = torch.randn(sum(lengths), 5)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = layer(ours[layout.source], layout)[layout.place]
    packed = pack_sequence(theirs.split(lengths), enforce_sorted=False)
    states, _ = pad_packed_sequence(other(packed)[0], batch_first=True)
    expected = torch.cat([s[:n] for s, n in zip(states, lengths, strict=True)])
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-5)
    # d/dp of both, by way of a twin that holds the gradients.
    for direction, suffix in enumerate(("", "_reverse")):
        for name in ("weight_ih", "weight_hh", "bias"):
            their_name = {"bias": "bias_ih"}.get(name, name)
            gradient = getattr(layer, name).grad[direction]
            i, f, o, g = gradient.chunk(4)
            expected_gradient = getattr(other, f"{their_name}_l0{suffix}").grad
            torch.testing.assert_close(
                torch.cat([i, f, g, o]), expected_gradient, rtol=1e-5, atol=1e-5
            )

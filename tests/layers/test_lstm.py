"""The packed biLSTM against nn.LSTM on packed sequences."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from tests.refusals import refused
from trainables.layers.lstm import BiLstm
from trainables.layers.packing import time_major


def reordered(gates):
    """Rows in the order of nn.LSTM: input, forget, cell, output."""
    return torch.cat([gates.chunk(4)[k] for k in (0, 1, 3, 2)])


@pytest.mark.parametrize("lengths", [[], [2, 0], [-1], [[2, 1]]])
def test_lengths_that_no_records_have_are_refused(lengths):
    with refused("non-empty vector of numbers >= 1"):
        time_major(torch.tensor(lengths))


def pairs(layer, other):
    """Of each map and direction: ours, its gradient, and theirs."""
    for way, suffix in enumerate(("", "_reverse")):
        for name in ("weight_ih", "weight_hh", "bias"):
            own = getattr(layer, name)
            theirs = getattr(other, f"{'bias_ih' if name == 'bias' else name}_l0{suffix}")
            yield own[way], own[way] if own.grad is None else own.grad[way], theirs


def twin(layer):
    """nn.LSTM with the same weights."""
    other = nn.LSTM(layer.weight_ih.shape[2], layer.weight_hh.shape[2], bidirectional=True)
    with torch.no_grad():
        for bias in (other.bias_hh_l0, other.bias_hh_l0_reverse):
            bias.zero_()
        for own, _, theirs in pairs(layer, other):
            theirs.copy_(reordered(own))
    return other


@pytest.mark.parametrize("lengths", [[4, 1, 6, 6, 2], [1, 1, 1], [7], [1]])
def test_states_and_gradients_equal_nn_lstm(lengths):
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
    for _, gradient, parameter in pairs(layer, other):
        torch.testing.assert_close(reordered(gradient), parameter.grad, rtol=1e-5, atol=1e-5)

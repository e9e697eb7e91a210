"""The layers' entries against closed forms."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from trainables.dp.layers.char_cnn import CharCnn, CharCnnEntry
from trainables.dp.layers.crf.layer import LinearChainCrf
from trainables.dp.layers.factored import FactoredLinear
from trainables.dp.layers.layer_norm import LayerNorm, LayerNormEntry
from trainables.dp.layers.lstm import BiLstm
from trainables.dp.layers.packing import Rows
from trainables.dp.layers.recorder import Recorder, recording
from trainables.dp.layers.rounding import FLOAT32, upper_row_norms
from trainables.dp.layers.units import Units

ROWS = Rows(np.array([0, 0, 1, 1, 1]), 2)
UNITS = Units(torch.arange(2), 2)


def test_shared_parts_hand_the_gradient_on():
    layer = FactoredLinear(3, torch.randn(4, 2))
    nn.init.normal_(layer.weight)
    x, g = torch.randn(5, 3, requires_grad=True), torch.randn(5, 4)
    with recording(Recorder()):
        layer(x, ROWS).backward(g)
    torch.testing.assert_close(x.grad, g @ layer.shares @ layer.weight.detach())


@pytest.mark.parametrize(
    ("trained", "most"), [("filters", 3**0.5), ("embedding", 18**0.5)]
)
def test_a_parameter_is_charged_with_every_place_of_a_window(trained, most):
    """The norm of what a row of norm 1 does is at most sqrt(kernel) of the longest
    character's to the filters, and to a character that of each filter's sum of norms; a
    window of that character alone reaches both.
    """
    layer = CharCnn(4, 2, 3).requires_grad_(False)
    parameter = getattr(layer, trained).requires_grad_()
    with torch.no_grad():
        layer.embedding.fill_(0.1)
        layer.embedding[0] = 0.5  # norm 1: the longest
        layer.filters.fill_(0.5)
    seen, word = (
        torch.zeros(1, 2, 3, dtype=torch.int64),
        torch.zeros(5, dtype=torch.int64),
    )
    g = torch.zeros(5, 2)
    g[0] = g[2] = 0.5**0.5
    entry = CharCnnEntry(layer, seen, word, g, ROWS)
    weights = {parameter: 4.0}  # the gradient counts twice
    total = entry.size(UNITS, weights).total
    torch.testing.assert_close(total, torch.full((2,), 2 * most).double())
    norms = entry.squared_norms(UNITS, weights).sqrt()
    torch.testing.assert_close(norms, total, rtol=1e-4, atol=0.0)


def test_the_size_of_a_layer_norm_is_added_up_in_double_precision():
    layer = LayerNorm(2)
    g = torch.full((5, 2), 0.1)
    entry = LayerNormEntry(layer.weight, layer.bias, torch.ones(5, 2), g, ROWS)
    total = entry.size(UNITS, dict.fromkeys(entry.parameters, 1.0)).total
    row = math.sqrt(2) * float(torch.tensor(0.1))
    expected = [math.sqrt(2) * row * count for count in (2, 3)]
    assert total.tolist() == pytest.approx(expected, rel=1e-12)


def test_a_crf_starts_from_small_scores_of_either_sign():
    """Uniform from -0.1 to 0.1: of 100 numbers and more both ends are seen."""
    torch.manual_seed(0)
    for parameter in LinearChainCrf(100).parameters():
        low, high = parameter.detach().aminmax()
        assert -0.1 <= float(low) < -0.08
        assert 0.08 < float(high) <= 0.1


def test_an_lstm_starts_as_the_literature_has_it():
    """Uniform weights within 1 / sqrt(hidden), biases 0 but for the forget gate's,
    which are 1.
    """
    torch.manual_seed(0)
    layer = BiLstm(30, 16)
    assert {name for name, _ in layer.named_parameters()} == {
        "weight_ih",
        "weight_hh",
        "bias",
    }
    for weight in (layer.weight_ih, layer.weight_hh):
        low, high = weight.detach().aminmax()
        assert -0.25 <= float(low) < -0.24
        assert 0.24 < float(high) <= 0.25
    forget = torch.zeros(2, 64)
    forget[:, 16:32] = 1.0
    torch.testing.assert_close(layer.bias.detach(), forget)


def test_an_upper_norm_covers_a_rounding_of_each_number():
    """In whatever order a processor adds the squares."""
    width = 1 << 16
    assert upper_row_norms(torch.ones(1, width)).item() >= 256 * (1 + FLOAT32 * width)

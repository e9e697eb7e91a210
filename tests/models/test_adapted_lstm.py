"""Adapters on a biLSTM against the plain sum W x + (alpha / rank) B A x, by autograd in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.models._builds import trained
from trainables.layers.bookkeeping import clipped_sum, gradient
from trainables.layers.lstm import BiLstm
from trainables.layers.packing import time_major
from trainables.models._lora import AdaptedBiLstm, LowRank


class Weighed(nn.Module):
    """A loss that is linear in the states: a random weight for each number."""

    def __init__(self, layer, lengths, *, seed):
        super().__init__()
        self.layer, self.lengths = layer, lengths
        torch.manual_seed(seed)
        width, hidden = layer.base.weight_ih.shape[2], layer.base.weight_hh.shape[2]
        self.x = torch.randn(sum(lengths), width, dtype=torch.float64)
        self.g = torch.randn(sum(lengths), 2 * hidden, dtype=torch.float64)

    def losses(self, batch):
        layout = time_major(torch.tensor(self.lengths))
        states = self.layer(self.x[layout.source], layout)[layout.place]
        return torch.stack([own.sum() for own in (self.g * states).split(self.lengths)])

    def losses_by_definition(self):
        """A record at a time, a token at a time."""
        parts = zip(self.x.split(self.lengths), self.g.split(self.lengths), strict=True)
        for x, g in parts:
            near, far = (self.states(x, 0), self.states(x.flip(0), 1).flip(0))
            yield (g * torch.cat([near, far], 1)).sum()

    def states(self, x, way):
        base = self.layer.base
        h = c = base.bias.new_zeros(base.weight_hh.shape[2])
        found = []
        for token in x:
            z = base.weight_ih[way] @ token + base.weight_hh[way] @ h + base.bias[way]
            for adapters, inputs in ((self.layer.input, token), (self.layer.recurrent, h)):
                own = adapters[way]
                z = z + own.scale * (own.up.weight @ (own.down.weight @ inputs))
            i, f, o, new = z.chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * new.tanh()
            h = o.sigmoid() * c.tanh()
            found.append(h)
        return torch.stack(found)


def adapted_layer(lengths, *, width, hidden, rank, alpha, seed):
    """A random layer whose adapters have left their start."""
    torch.manual_seed(seed)
    layer = AdaptedBiLstm(BiLstm(width, hidden), rank=rank, alpha=alpha)
    for adapter in layer.modules():
        if isinstance(adapter, LowRank):
            nn.init.normal_(adapter.up.weight, std=0.3)
    return Weighed(layer.double(), lengths, seed=seed)


@st.composite
def models(draw):
    """Any sizes, and any rank that fits."""
    width, hidden = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    return adapted_layer(
        draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)),
        width=width,
        hidden=hidden,
        rank=draw(st.integers(1, min(width, hidden))),
        alpha=draw(st.sampled_from([1.0, 16.0])),
        seed=draw(st.integers(0, 2**20)),
    )


def per_record(model):
    """[B, P]: each record's gradient, by autograd of the definition."""
    return torch.stack(
        [
            torch.cat([own.flatten() for own in torch.autograd.grad(loss, trained(model))])
            for loss in model.losses_by_definition()
        ]
    )


def keep_books(model, *, bound, scale):
    """The clipped sum and the norms."""
    out = torch.zeros(sum(p.numel() for p in trained(model)), dtype=torch.float64)
    norms = clipped_sum(
        model,
        None,
        unit_of_record=torch.arange(len(model.lengths)),
        num_units=len(model.lengths),
        weight_of_record=torch.ones(len(model.lengths), dtype=torch.float64),
        max_grad_norm=bound,
        group_scale=scale,
        out=out,
    )
    return out, norms


def shares(model, scale):
    """[P]: the scale of each number's group."""
    return torch.repeat_interleave(scale, torch.tensor([p.numel() for p in trained(model)]))


def assert_books_are_right(model, *, bound, scale):
    found, norms = keep_books(model, bound=bound, scale=scale)
    each = per_record(model)
    right = (each / shares(model, scale)).norm(dim=1)
    assert bool((norms >= right * (1 - 1e-9)).all())
    torch.testing.assert_close(norms, right, rtol=1e-3, atol=1e-12)
    expected = ((bound / norms).clamp(max=1.0).unsqueeze(1) * each).sum(0)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


@given(model=models(), seed=st.integers(0, 2**20), bound=st.sampled_from([1e-2, 1.0, 1e9]))
@settings(max_examples=60, deadline=None)
def test_norms_and_clipped_sums_are_those_of_the_definition(model, seed, bound):
    torch.manual_seed(seed)
    scale = torch.rand(len(trained(model)), dtype=torch.float64) + 0.5
    assert_books_are_right(model, bound=bound, scale=scale)


@pytest.mark.parametrize("bound", [1e-2, 1e9])
def test_the_same_of_one_layer(bound):
    model = adapted_layer([4, 1, 3], width=3, hidden=4, rank=2, alpha=4.0, seed=0)
    scale = torch.ones(len(trained(model)), dtype=torch.float64)
    assert_books_are_right(model, bound=bound, scale=scale)


@given(model=models())
@settings(max_examples=20, deadline=None)
def test_the_plain_gradient_is_the_same_with_and_without_books(model):
    expected = per_record(model).sum(0)
    found = torch.zeros_like(expected)
    gradient(model, None, torch.ones(len(model.lengths), dtype=torch.float64), found)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    model.losses(None).sum().backward()
    own = torch.cat([p.grad.flatten() for p in trained(model) if p.grad is not None])
    torch.testing.assert_close(own, expected, rtol=1e-8, atol=1e-10)

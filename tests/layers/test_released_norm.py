"""What a unit adds to the released sum has norm at most C (1 + 1e-4), however its rows cancel.

Rows are given to the layers' entries as they are, so that they may be as bad as float32 can hold:
nearly equal inputs with opposite gradients, up to 10^7 times their sum.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from trainables.layers import gram
from trainables.layers.bookkeeping import add_clipped
from trainables.layers.char_cnn import NUM_CHARS, CharCnn, CharCnnEntry
from trainables.layers.crf import CrfEntry, LinearChainCrf
from trainables.layers.crf_statistics import LogPairs, ProductPairs
from trainables.layers.embedding import Embedding, EmbeddingEntry
from trainables.layers.layer_norm import LayerNorm, LayerNormEntry
from trainables.layers.linear import Linear, LinearEntry
from trainables.layers.lstm import BiLstm, LstmEntry
from trainables.layers.packing import Rows, time_major
from trainables.layers.tape import Entry, Units
from trainables.layers.tied import TiedEntry, combine
from trainables.layers.tied_table import TiedTableEntry

TOLERANCE = 1e-4


class Cancelling:
    """Rows in pairs that nearly cancel: equal up to `apart`, of opposite sign, of norm `size`."""

    def __init__(self, *, seed: int, size: float, apart: float) -> None:
        self._random = torch.Generator().manual_seed(seed)
        self.size, self.apart = size, apart

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._random)

    def alike(self, number: int, width: int) -> Tensor:
        """[number, width]: rows that differ by `apart` of their size."""
        return self.normal(1, width) + self.apart * self.normal(number, width)

    def opposite(self, number: int, width: int) -> Tensor:
        """[number, width]: the same with alternating signs, times `size`."""
        signs = torch.tensor([1.0, -1.0]).repeat(number)[:number].unsqueeze(1)
        return self.size * signs * self.alike(number, width)


def linear(rows: Rows, draw: Cancelling, *, width: int = 24) -> list[Entry]:
    layer, number = Linear(width, 20), len(rows.record)
    x, g = draw.alike(number, width), draw.opposite(number, 20)
    return [LinearEntry(layer.weight, layer.bias, x, g, rows)]


def wide_linear(rows: Rows, draw: Cancelling) -> list[Entry]:
    """Width enough that Grams are cheaper than sums."""
    layer, number = Linear(700, 300), len(rows.record)
    x, g = draw.alike(number, 700), draw.opposite(number, 300)
    return [LinearEntry(layer.weight, layer.bias, x, g, rows)]


def adapters(rows: Rows, draw: Cancelling) -> list[Entry]:
    """Low rank: thin matrices without a bias."""
    down, up, number = Linear(200, 2, bias=False), Linear(2, 200, bias=False), len(rows.record)
    return [
        LinearEntry(down.weight, None, draw.alike(number, 200), draw.opposite(number, 2), rows),
        LinearEntry(up.weight, None, draw.alike(number, 2), draw.opposite(number, 200), rows),
    ]


def lstm(rows: Rows, draw: Cancelling) -> list[Entry]:
    counts = np.bincount(rows.record)
    layout = time_major(torch.from_numpy(counts))
    layer, number = BiLstm(30, 16), len(rows.record)
    h = torch.stack([draw.alike(number, 16), draw.alike(number, 16)])
    h[:, : layout.num_records] = 0.0
    x = (draw.alike(number, 30), draw.alike(number, 30))
    dz = torch.stack([draw.opposite(number, 64), draw.opposite(number, 64)])
    return [LstmEntry(layer, x, h, dz, layout)]


def embedding(rows: Rows, draw: Cancelling) -> list[Entry]:
    layer, number = Embedding(3, 12), len(rows.record)
    ids = torch.zeros(number, dtype=torch.int64)
    ids[-1] = 2
    return [EmbeddingEntry(layer.weight, ids, draw.opposite(number, 12), rows)]


def layer_norm(rows: Rows, draw: Cancelling) -> list[Entry]:
    layer, number = LayerNorm(24), len(rows.record)
    x, g = draw.alike(number, 24), draw.opposite(number, 24)
    return [LayerNormEntry(layer.weight, layer.bias, x, g, rows)]


def char_cnn(rows: Rows, draw: Cancelling) -> list[Entry]:
    layer, number = CharCnn(8, 10, 3), len(rows.record)
    seen = torch.arange(2 * 10 * 3).remainder(NUM_CHARS).view(2, 10, 3)
    word = torch.zeros(number, dtype=torch.int64)
    word[-1] = 1
    return [CharCnnEntry(layer, seen, word, draw.opposite(number, 10), rows)]


def crf(rows: Rows, draw: Cancelling, *, in_logs: bool = False) -> list[Entry]:
    """Weights of either sign, so that what is expected of the pairs cancels too."""
    tags, number = 7, len(rows.record)
    layer = LinearChainCrf(tags)
    left, right = (draw.alike(number, tags).softmax(1) for _ in range(2))
    transitions = layer.transitions.detach()
    pairs = (
        LogPairs(transitions, left.log(), right.log())
        if in_logs
        else ProductPairs(torch.ones(tags, tags), left, right)
    )
    before, after = torch.zeros(number, dtype=torch.int64), torch.ones(number, dtype=torch.int64)
    records = Rows(np.arange(rows.num_records), rows.num_records)
    start, end = (draw.opposite(rows.num_records, tags) for _ in range(2))
    weight = draw.opposite(number, 1).squeeze(1)
    return [CrfEntry(layer, start, end, records, pairs, (before, after), weight, rows)]


def crf_in_logs(rows: Rows, draw: Cancelling) -> list[Entry]:
    return crf(rows, draw, in_logs=True)


def tied_table(rows: Rows, draw: Cancelling) -> list[Entry]:
    """The look-up undoes what the map adds."""
    table, number = nn.Parameter(torch.zeros(5, 12)), len(rows.record)
    x, h = draw.alike(number, 12), draw.opposite(number, 5)
    ids = torch.arange(number).remainder(5)
    whole = h.t() @ x
    g = -whole[ids] / torch.bincount(ids, minlength=5)[ids].unsqueeze(1)
    return [
        EmbeddingEntry(table, ids, g + draw.apart * draw.normal(number, 12), rows),
        LinearEntry(table, None, x, h, rows),
    ]


def used_twice(rows: Rows, draw: Cancelling) -> list[Entry]:
    """One linear map whose second use takes back the first."""
    layer, number = Linear(12, 9), len(rows.record)
    x, g = draw.alike(number, 12), draw.opposite(number, 9)
    again = x + draw.apart * draw.normal(number, 12)
    return [
        LinearEntry(layer.weight, layer.bias, x, g, rows),
        LinearEntry(layer.weight, layer.bias, again, -g, rows),
    ]


def norm_used_twice(rows: Rows, draw: Cancelling) -> list[Entry]:
    first = layer_norm(rows, draw)[0]
    assert isinstance(first, LayerNormEntry)
    g = draw.apart * draw.normal(*first.g.shape) - first.g
    return [first, LayerNormEntry(first.weight, first.bias, first.x, g, rows)]


KINDS = {
    f.__name__: f
    for f in (
        linear, wide_linear, adapters, lstm, embedding, layer_norm, char_cnn, crf, crf_in_logs,
        tied_table, used_twice, norm_used_twice,
    )
}  # fmt: skip


def released(
    entries: list[Entry], units: Units, *, clip: float, scale: float
) -> tuple[float, Tensor]:
    """Norm of the clipped sum in scaled space, in float64; the norms found."""
    parameters = list(dict.fromkeys(p for entry in entries for p in entry.parameters))
    weights = dict.fromkeys(parameters, scale)
    views = {p: torch.zeros_like(p) for p in parameters}
    norms = add_clipped(entries, units, weights, views, max_grad_norm=clip)
    squares = torch.stack([view.double().square().sum() for view in views.values()])
    return float((squares.sum() * scale).sqrt()), norms


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr(gram, "_compiled", lambda: None)
    elif gram._compiled() is None:
        pytest.skip("no C compiler (cc) on this machine")
    return request.param


@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 2**31),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    size=st.sampled_from([1e-6, 1.0, 1e3, 1e6]),
    apart=st.sampled_from([0.0, 1e-7, 3e-4, 1e-2, 1.0]),
    clip=st.sampled_from([1e-3, 1.0, 50.0]),
    scale=st.sampled_from([1.0, 0.37, 20.0]),
)
@example(seed=0, lengths=[4], size=1e3, apart=3e-4, clip=1.0, scale=1.0)
@settings(max_examples=40, deadline=None)
def test_no_unit_adds_more_than_the_bound(
    kind: str, seed: int, lengths: list[int], size: float, apart: float, clip: float, scale: float
) -> None:
    """All records in one unit, compiled and not."""
    rows = Rows(np.repeat(np.arange(len(lengths)), lengths), len(lengths))
    if kind == "lstm":
        rows = time_major(torch.tensor(lengths)).rows
    for is_compiled in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not is_compiled:
                patch.setattr(gram, "_compiled", lambda: None)
            draw = Cancelling(seed=seed, size=size, apart=apart)
            entries = KINDS[kind](rows, draw)
            units = Units(torch.zeros(len(lengths), dtype=torch.int64), 1)
            found, norms = released(entries, units, clip=clip, scale=scale)
            assert found <= clip * (1 + TOLERANCE)
            whole, _ = released(entries, units, clip=1e30, scale=scale)
            assert float(norms) >= whole * (1 - 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_do_not_cancel_are_clipped_to_the_bound(kind: str, way: str) -> None:
    """Little is given away: the released norm is C to a part in a thousand. (The two uses of the
    tied table still take back much of each other.)"""
    slack = 1e-2 if kind == "tied_table" else 1e-3
    rows = Rows(np.repeat(np.arange(3), [5, 2, 6]), 3)
    if kind == "lstm":
        rows = time_major(torch.tensor([5, 2, 6])).rows
    units = Units(torch.zeros(3, dtype=torch.int64), 1)
    for seed in range(5):
        draw = Cancelling(seed=seed, size=1.0, apart=1.0)
        entries = KINDS[kind](rows, draw)
        whole, norms = released(entries, units, clip=1e30, scale=1.0)
        assert whole <= float(norms) * (1 + 1e-6)
        assert float(norms) <= whole * (1 + slack)
        found, _ = released(entries, units, clip=whole / 3, scale=1.0)
        assert found >= whole / 3 * (1 - slack)


def test_tied_entries_are_those_that_are_tested() -> None:
    rows, draw = Rows(np.zeros(4, dtype=np.int64), 1), Cancelling(seed=0, size=1.0, apart=1.0)
    assert isinstance(combine(tied_table(rows, draw))[0], TiedTableEntry)
    assert isinstance(combine(used_twice(rows, draw))[0], TiedEntry)


def test_a_unit_of_cancelling_rows_moves_the_sum_with_others_by_no_more(way: str) -> None:
    """Its large rows must not round away what the other units add: the difference with and without
    it, as float32 has it."""
    lengths = [4, *[15] * 30]
    rows = Rows(np.repeat(np.arange(31), lengths), 31)
    draw = Cancelling(seed=1, size=1e6, apart=3e-4)
    layer = Linear(64, 48)
    x, g = torch.randn(len(rows.record), 64), torch.randn(len(rows.record), 48)
    x[:4], g[:4] = draw.alike(4, 64), draw.opposite(4, 48)
    sums = []
    for with_it in (True, False):
        own = g.clone()
        own[:4] *= float(with_it)
        entry = LinearEntry(layer.weight, layer.bias, x, own, rows)
        views = {p: torch.zeros_like(p) for p in layer.parameters()}
        weights = dict.fromkeys(layer.parameters(), 1.0)
        add_clipped([entry], Units(torch.arange(31), 31), weights, views, max_grad_norm=1.0)
        sums.append(torch.cat([view.double().flatten() for view in views.values()]))
    assert float((sums[0] - sums[1]).norm()) <= 1 + TOLERANCE

"""A unit adds norm at most C (1 + 1e-4) to the released sum, however its rows cancel.

Rows are given to the layers' entries as they are, so that they may be as bad as float32
can hold: nearly equal inputs with opposite gradients, up to 10^7 times their sum.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from trainables.dp.layers import factored, gram
from trainables.dp.layers.bookkeeping import add_clipped
from trainables.dp.layers.char_cnn import NUM_CHARS, CharCnn, CharCnnEntry
from trainables.dp.layers.crf.layer import CrfEntry, LinearChainCrf
from trainables.dp.layers.crf.statistics import LogPairs, ProductPairs
from trainables.dp.layers.embedding import Embedding, EmbeddingEntry
from trainables.dp.layers.factored import FactoredEntry, FactoredLinear
from trainables.dp.layers.layer_norm import LayerNorm, LayerNormEntry
from trainables.dp.layers.linear import Linear, LinearEntry
from trainables.dp.layers.lstm import BiLstm, LstmEntry
from trainables.dp.layers.packing import Rows, time_major
from trainables.dp.layers.rounding import Size, upper_bound
from trainables.dp.layers.tied_table import TiedEntry, TiedTableEntry, combine
from trainables.dp.layers.units import Units

TOLERANCE = 1e-4


class Cancelling:
    """Rows in pairs that nearly cancel: equal up to `apart`, of opposite sign, of norm
    `size`.

    With `bf16` they are as mixed precision leaves them: rounded, and widened again. All
    numbers of row 1 are `second`, where that is given.
    """

    def __init__(self, *, seed, size, apart, bf16=False, second=None):
        self._random = torch.Generator().manual_seed(seed)
        self.size, self.apart, self.bf16, self.second = size, apart, bf16, second

    def normal(self, *shape):
        return torch.randn(*shape, generator=self._random)

    def alike(self, number, width):
        """[number, width]: rows that differ by `apart` of their size."""
        rows = self.normal(1, width) + self.apart * self.normal(number, width)
        return self.marked(rows.bfloat16().float() if self.bf16 else rows)

    def marked(self, rows):
        if self.second is not None:
            rows[1] = self.second
        return rows

    def opposite(self, number, width):
        """[number, width]: the same with alternating signs, times `size`."""
        signs = torch.tensor([1.0, -1.0]).repeat(number)[:number].unsqueeze(1)
        return self.size * signs * self.alike(number, width)


def linear(rows, draw, *, width=24, outputs=20):
    layer, number = Linear(width, outputs), len(rows.record)
    x, g = draw.alike(number, width), draw.opposite(number, outputs)
    return [LinearEntry(layer.weight, layer.bias, x, g, rows)]


def wide_linear(rows, draw):
    """Width enough that Grams are cheaper than sums."""
    return linear(rows, draw, width=700, outputs=300)


def factored_entries(rows, draw):
    """Rows of the shared weights cancel too: the shares of two outputs are nearly
    opposite.
    """
    shares = draw.opposite(20, 30) / draw.size
    layer, number = FactoredLinear(24, shares.nan_to_num()), len(rows.record)
    x = draw.alike(number, 24)
    return [
        FactoredEntry(
            layer, x, draw.opposite(number, 20), rows, layer.known_of(x).fixed
        )
    ]


def adapters(rows, draw):
    """Low rank: thin matrices without a bias."""
    down, up, number = (
        Linear(200, 2, bias=False),
        Linear(2, 200, bias=False),
        len(rows.record),
    )
    return [
        LinearEntry(
            down.weight, None, draw.alike(number, 200), draw.opposite(number, 2), rows
        ),
        LinearEntry(
            up.weight, None, draw.alike(number, 2), draw.opposite(number, 200), rows
        ),
    ]


def lstm(rows, draw):
    layout = time_major(torch.from_numpy(np.bincount(rows.record)))
    layer, number = BiLstm(30, 16), len(rows.record)
    h = torch.stack([draw.alike(number, 16), draw.alike(number, 16)])
    h[:, : layout.num_records] = 0.0
    x = (draw.alike(number, 30), draw.alike(number, 30))
    dz = torch.stack([draw.opposite(number, 64), draw.opposite(number, 64)])
    return [LstmEntry(layer, x, h, dz, layout)]


def embedding(rows, draw):
    layer, number = Embedding(3, 12), len(rows.record)
    ids = torch.zeros(number, dtype=torch.int64)
    ids[-1] = 2
    return [EmbeddingEntry(layer.weight, ids, draw.opposite(number, 12), rows)]


def layer_norm(rows, draw):
    layer, number = LayerNorm(24), len(rows.record)
    x, g = draw.alike(number, 24), draw.opposite(number, 24)
    return [LayerNormEntry(layer.weight, layer.bias, x, g, rows)]


def char_cnn(rows, draw):
    layer, number = CharCnn(8, 10, 3), len(rows.record)
    seen = torch.arange(2 * 10 * 3).remainder(NUM_CHARS).view(2, 10, 3)
    word = torch.zeros(number, dtype=torch.int64)
    word[-1] = 1
    return [CharCnnEntry(layer, seen, word, draw.opposite(number, 10), rows)]


def crf(rows, draw, *, in_logs=False):
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
    before, after = (
        torch.zeros(number, dtype=torch.int64),
        torch.ones(number, dtype=torch.int64),
    )
    records = Rows(np.arange(rows.num_records), rows.num_records)
    start, end = (draw.opposite(rows.num_records, tags) for _ in range(2))
    weight = draw.opposite(number, 1).squeeze(1)
    return [CrfEntry(layer, start, end, records, pairs, (before, after), weight, rows)]


def crf_in_logs(rows, draw):
    return crf(rows, draw, in_logs=True)


def tied_table(rows, draw):
    """The look-up undoes what the map adds."""
    table, number = nn.Parameter(torch.zeros(5, 12)), len(rows.record)
    x, h = draw.alike(number, 12), draw.opposite(number, 5)
    ids = torch.arange(number).remainder(5)
    whole = h.nan_to_num().t() @ x.nan_to_num()
    g = -whole[ids] / torch.bincount(ids, minlength=5)[ids].unsqueeze(1)
    g = draw.marked(g + draw.apart * draw.normal(number, 12))
    return [EmbeddingEntry(table, ids, g, rows), LinearEntry(table, None, x, h, rows)]


def used_twice(rows, draw):
    """One linear map whose second use takes back the first."""
    (first,) = linear(rows, draw, width=12, outputs=9)
    again = first.x + draw.apart * draw.normal(*first.x.shape)
    return [first, replace(first, x=again, g=-first.g)]


def norm_used_twice(rows, draw):
    first = layer_norm(rows, draw)[0]
    g = draw.marked(draw.apart * draw.normal(*first.g.shape) - first.g)
    return [first, replace(first, g=g)]


KINDS = {
    f.__name__: f
    for f in (
        linear, wide_linear, factored_entries, adapters, lstm, embedding, layer_norm, char_cnn, crf,
        crf_in_logs, tied_table, used_twice, norm_used_twice,
    )
}  # fmt: skip


def released(entries, units, *, clip, scale=1.0):
    """The clipped sum, by parameter in float64; the norms found."""
    parameters = list(dict.fromkeys(p for entry in entries for p in entry.parameters))
    weights = dict.fromkeys(parameters, scale)
    views = {p: torch.zeros_like(p) for p in parameters}
    norms = add_clipped(entries, units, weights, views, max_grad_norm=clip)
    return {p: view.double() for p, view in views.items()}, norms


def release_norm(entries, units, *, clip, scale=1.0):
    """Norm of the clipped sum in scaled space; the norms found."""
    views, norms = released(entries, units, clip=clip, scale=scale)
    squares = torch.stack([view.square().sum() for view in views.values()])
    return float((squares.sum() * scale).sqrt()), norms


def rows_of(kind, lengths):
    if kind == "lstm":
        return time_major(torch.tensor(lengths)).rows
    return Rows(np.repeat(np.arange(len(lengths)), lengths), len(lengths))


_RECORDS = {
    "seed": st.integers(0, 2**31),
    "lengths": st.lists(st.integers(1, 12), min_size=1, max_size=4),
}


@pytest.mark.parametrize("kind", KINDS)
@given(
    **_RECORDS,
    size=st.sampled_from([1e-6, 1.0, 1e3, 1e6]),
    apart=st.sampled_from([0.0, 1e-7, 3e-4, 1e-2, 1.0]),
    clip=st.sampled_from([1e-3, 1.0, 50.0]),
    scale=st.sampled_from([1.0, 0.37, 20.0]),
    bf16=st.booleans(),
)
@example(seed=0, lengths=[4], size=1e3, apart=3e-4, clip=1.0, scale=1.0, bf16=False)
@example(seed=0, lengths=[4], size=1e3, apart=1e-2, clip=1.0, scale=1.0, bf16=True)
@settings(max_examples=40, deadline=None)
def test_no_unit_adds_more_than_the_bound(
    kind, seed, lengths, size, apart, clip, scale, bf16
):
    """All records in one unit, compiled and not."""
    rows = rows_of(kind, lengths)
    for is_compiled in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not is_compiled:
                patch.setattr(gram, "_native_norms", lambda: None)
            draw = Cancelling(seed=seed, size=size, apart=apart, bf16=bf16)
            entries = KINDS[kind](rows, draw)
            units = Units(torch.zeros(len(lengths), dtype=torch.int64), 1)
            found, norms = release_norm(entries, units, clip=clip, scale=scale)
            assert found <= clip * (1 + TOLERANCE)
            whole, _ = release_norm(entries, units, clip=1e30, scale=scale)
            assert float(norms) >= whole * (1 - 1e-6)


@given(
    **_RECORDS,
    size=st.sampled_from([1e-6, 1.0, 1e6]),
    apart=st.sampled_from([1e-7, 3e-4, 1.0]),
    clip=st.sampled_from([1e-3, 1.0, 50.0]),
)
@settings(max_examples=15, deadline=None)
def test_layers_of_all_kinds_together_keep_to_the_bound(
    seed, lengths, size, apart, clip
):
    """One unit with an entry of each kind, each a layer of its own; scales differ by
    10^4.
    """
    rows = time_major(torch.tensor(lengths)).rows
    entries = []
    for number, kind in enumerate(KINDS):
        draw = Cancelling(seed=seed, size=size * 10.0 ** (number % 5 - 2), apart=apart)
        entries += KINDS[kind](rows, draw)
    layers = [entry.parameters for entry in combine(entries)]
    units = Units(torch.zeros(len(lengths), dtype=torch.int64), 1)
    views, _ = released(entries, units, clip=clip)
    squares = [sum(float(views[p].square().sum()) for p in own) for own in layers]
    assert sum(squares) ** 0.5 <= clip * (1 + TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_do_not_cancel_are_clipped_to_the_bound(kind, way):
    """Little is given away: the released norm is C to a part in a thousand. (The two
    uses of the tied table still take back much of each other.)
    """
    slack = 1e-2 if kind == "tied_table" else 1e-3
    rows = rows_of(kind, [5, 2, 6])
    units = Units(torch.zeros(3, dtype=torch.int64), 1)
    for seed in range(5):
        entries = KINDS[kind](rows, Cancelling(seed=seed, size=1.0, apart=1.0))
        whole, norms = release_norm(entries, units, clip=1e30)
        assert whole <= float(norms) * (1 + 1e-6)
        assert float(norms) <= whole * (1 + slack)
        found, _ = release_norm(entries, units, clip=whole / 3)
        assert found >= whole / 3 * (1 - slack)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lstm"])
def test_the_squares_of_the_trained_parameters_add_up(kind):
    """Those of norms, and about those of sizes: each by its scale, and of a frozen one
    none (those of an LSTM are trained together).
    """
    lengths, units = torch.tensor([5, 2, 6]), Units(torch.arange(3), 3)

    def squares(trained, scale):
        torch.manual_seed(0)
        entries = KINDS[kind](
            time_major(lengths).rows, Cancelling(seed=0, size=1.0, apart=1.0)
        )
        parameters = list(
            dict.fromkeys(p for entry in entries for p in entry.parameters)
        )
        weights = dict.fromkeys(parameters[trained], scale)
        for parameter in parameters:
            parameter.requires_grad_(parameter in weights)
        recorded = {p for entry in entries for p in entry.parameters}
        assert kind in ("embedding", "tied_table") or recorded == set(weights)
        made = combine([entry for entry in entries if {*entry.parameters} & {*weights}])
        sizes = [entry.size(units, weights).total.square() for entry in made]
        norms = [entry.squared_norms(units, weights) for entry in made]
        views = {p: torch.zeros_like(p) for p in weights}
        for entry in made:
            entry.add_gradient(None, None, views)  # and to no frozen parameter
        return torch.stack([sum(sizes, torch.zeros(3)), sum(norms, torch.zeros(3))])

    alone = sum(squares(slice(place, place + 1), 8.0) for place in range(3))
    for found, whole, slack in zip(
        alone, 4 * squares(slice(None), 2.0), (0.1, 1e-3), strict=True
    ):
        torch.testing.assert_close(found, whole, rtol=slack, atol=0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_a_lone_row_is_the_norm_of_its_gradient(kind):
    """Of two directions or uses the sum of their norms, which may be up to sqrt(2)
    times the whole; where rows share weights, more.
    """
    lengths, units = torch.tensor([1, 1, 1]), Units(torch.arange(3), 3)
    torch.manual_seed(0)  # of the layers' own weights
    made = combine(
        KINDS[kind](time_major(lengths).rows, Cancelling(seed=0, size=1.0, apart=1.0))
    )
    parameters = dict.fromkeys(p for entry in made for p in entry.parameters)
    weights = {p: 0.5 + number for number, p in enumerate(parameters)}
    sizes = sum(entry.size(units, weights).total.square() for entry in made)
    norms = sum(entry.squared_norms(units, weights) for entry in made)
    ratio = (sizes / norms).sqrt()
    most = {
        "lstm": 2**0.5,
        "crf": 1.2,
        "crf_in_logs": 1.2,
        "tied_table": 2**0.5,
        "char_cnn": 2.0,
    }
    shared = ("factored_entries", "used_twice", "norm_used_twice")
    assert float(ratio.min()) >= 1 - 1e-5
    assert float(ratio.max()) <= most.get(kind, 9.0 if kind in shared else 1.0)
    assert float(ratio.min()) > {"lstm": 1.4, "char_cnn": 1.5}.get(kind, 0.99)


def unknown_rows(rows, draw):
    """The rows of a call, of which nothing is known from an earlier step."""
    (entry,) = factored_entries(rows, draw)
    return [replace(entry, fixed=None)]


@pytest.mark.parametrize("kind", [*KINDS.values(), unknown_rows])
def test_a_size_bounds_the_gradient_of_each_parameter(kind):
    """What rows add one by one is at least the norm of their sum, of every parameter
    alone and by its scale (those of an LSTM are trained together).
    """
    rows = rows_of(kind.__name__, [4, 1, 3])
    units = Units(torch.zeros(3, dtype=torch.int64), 1)
    entries = kind(rows, Cancelling(seed=0, size=1.0, apart=1.0))
    gradients, _ = released(entries, units, clip=1e30)
    for trained in (
        [gradients] if kind is lstm else [{p: gradients[p]} for p in gradients]
    ):
        squares = []
        for scale in (1.0, 0.3, 7.0):
            weights = {p: scale * (p in trained) for p in gradients}
            sizes = [entry.size(units, weights) for entry in combine(entries)]
            squares.append(sum(float(size.total.square()) for size in sizes))
        norm = sum(float(gradients[p].square().sum()) for p in trained) ** 0.5
        assert squares[0] ** 0.5 >= norm * (1 - 1e-5)
        assert norm > 0 or kind is used_twice  # whose second bias takes back the first
        assert squares == pytest.approx([squares[0], 0.3 * squares[0], 7 * squares[0]])


@pytest.mark.parametrize("shared", ["weight", "bias", "both", "neither"])
def test_maps_that_share_a_weight_or_a_bias_have_the_gradients_of_both(shared):
    """And the norm of what they add together, which products in float64 give."""
    rows = [Rows(np.array(record), 3) for record in ([0, 0, 1], [1, 2, 2])]
    draw = Cancelling(seed=0, size=1.0, apart=1.0)
    first, second = Linear(5, 4), Linear(5, 4)
    if shared in ("weight", "both"):
        second.weight = first.weight
    if shared in ("bias", "both"):
        second.bias = first.bias
    entries = [
        LinearEntry(layer.weight, layer.bias, draw.normal(3, 5), draw.normal(3, 4), of)
        for layer, of in zip((first, second), rows, strict=True)
    ]
    expected = {}
    for entry in entries:
        products = entry.g.double().t() @ entry.x.double(), entry.g.double().sum(0)
        for p, product in zip((entry.weight, entry.bias), products, strict=True):
            expected[p] = expected.get(p, 0.0) + product
    units = Units(torch.zeros(3, dtype=torch.int64), 1)
    found, norms = released(entries, units, clip=1e30)
    assert found.keys() == expected.keys()
    for p, gradient in found.items():
        torch.testing.assert_close(gradient, expected[p], rtol=1e-5, atol=1e-6)
    norm = sum(float(each.square().sum()) for each in expected.values()) ** 0.5
    assert (
        norm * (1 - 1e-6) <= float(norms) <= norm * (1.5 if shared != "both" else 1.001)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_that_is_not_finite_leaves_the_sum_of_the_others(kind, monkeypatch):
    """As it is where that unit has nothing, whatever is known of its rows, and row by
    row.
    """
    monkeypatch.setattr(factored, "_AT_ONCE", 1)
    rows, units = (
        time_major(torch.ones(3, dtype=torch.int64)).rows,
        Units(torch.arange(3), 3),
    )
    sums = []
    for second in (0.0, torch.nan):
        torch.manual_seed(0)  # of the layers' own weights
        draw = Cancelling(seed=0, size=1.0, apart=1.0, second=second)
        views, norms = released(KINDS[kind](rows, draw), units, clip=1.0)
        sums.append(list(views.values()))
    assert norms.isfinite().tolist() == [True, False, True]
    torch.testing.assert_close(*sums)


def test_the_roundings_of_a_product_are_counted(monkeypatch):
    """Of rows 20 and 13 numbers long in eight lanes, and of no term one by one."""
    terms = [(torch.zeros(1, 20), 1.0), (torch.zeros(1, 9), 1.0)]
    assert gram._roundings(terms, 13, lanes=8) == 33 // 8 + 4 * 8 + 2 + 8
    assert gram._roundings([], 13, lanes=1) == 13 + 4 + 8
    monkeypatch.setattr(gram, "_native_norms", lambda: None)
    monkeypatch.setattr(gram, "_is_double", lambda g: False)  # as on a GPU
    rows = Units(torch.zeros(1, dtype=torch.int64), 1).of(
        Rows(np.zeros(4, dtype=np.int64), 1)
    )
    found = gram.gram_norms(rows, [(torch.ones(4, 64), 1.0)], torch.ones(4, 70), 0.0)
    assert found.relative.item() == gram.FLOAT32 * (64 + 70 + 4 + 1 + 8)


def test_tied_entries_are_those_that_are_tested():
    """Also by the last of their parameters, and through a third."""
    rows, draw = (
        Rows(np.zeros(4, dtype=np.int64), 1),
        Cancelling(seed=0, size=1.0, apart=1.0),
    )
    first, layers = used_twice(rows, draw)[0], [Linear(12, 9) for _ in range(3)]
    made = [
        LinearEntry(layer.weight, bias, first.x, first.g, rows)
        for layer, bias in zip(
            layers, (layers[0].bias, layers[1].bias, layers[1].bias), strict=True
        )
    ]
    assert [len(getattr(each, "entries", [0])) for each in combine([first, *made])] == [
        1,
        1,
        2,
    ]
    through = LinearEntry(first.weight, layers[1].bias, first.x, first.g, rows)
    (whole, alone) = combine([first, made[1], made[0], through])[::-1]
    assert (whole.entries, alone) == ([first, made[1], through], made[0])
    assert isinstance(combine(tied_table(rows, draw))[0], TiedTableEntry)
    assert isinstance(combine(used_twice(rows, draw))[0], TiedEntry)


def test_rows_that_cancel_do_not_round_away_what_other_units_add(way):
    """One huge row before and one behind those of 50 other units take each other back.
    In between every sum is rounded to their size; without a limit to it, the sum would
    be off by 0.15 C.
    """
    record = np.array([0, *np.repeat(np.arange(1, 51), 8), 0])
    rows, units = Rows(record, 51), Units(torch.arange(51), 51)
    torch.manual_seed(0)
    layer = Linear(64, 48)
    x, g = torch.randn(len(record), 64), torch.randn(len(record), 48)
    x[-1] = x[0]
    g[0] *= 1e6
    g[-1] = -g[0] * (1 + 1e-6)
    sums = []
    for present in (1.0, 0.0):
        own = g.clone()
        own[[0, -1]] *= present
        entry = LinearEntry(layer.weight, layer.bias, x, own, rows)
        views, _ = released([entry], units, clip=1.0)
        sums.append(torch.cat([view.flatten() for view in views.values()]))
    assert float((sums[0] - sums[1]).norm()) <= 1e-3


@pytest.mark.parametrize("cancelled", [1.0, 30.0, 1e3])
@pytest.mark.parametrize("terms", [1, 2_000])
def test_the_worst_that_rounding_may_do_is_covered(cancelled, terms):
    """Grams may be off by `relative` R^2, and each of two sums of n rows by n 2^-24
    R.
    """
    total, relative = 7.0, 3e-5
    exact = total / cancelled
    computed = torch.tensor([exact**2 - relative * total**2])
    size = Size(torch.tensor([total], dtype=torch.float64), torch.tensor([terms]))
    worst = exact + 2 * terms * 2.0**-24 * total
    found = float(upper_bound(computed, size, relative=relative).sqrt())
    assert worst <= found <= worst * 1.01 + 1e-5 * total


@given(
    seed=st.integers(0, 2**31),
    widths=st.lists(st.sampled_from([1, 7, 64, 301]), max_size=2),
    width=st.sampled_from([1, 8, 65, 312]),
    lengths=st.lists(st.integers(1, 14), min_size=1, max_size=4),
    longest=st.sampled_from([1, 95, 96, 97, 130]),
    apart=st.sampled_from([0.0, 1e-5, 1e-2, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
@example(0, [301], 312, [5], 97, 1.0, torch.float32)
@example(
    0, [65, 70], 93, [3, 1, 13, 4, 8, 2, 7, 4, 12, 5, 6, 9], 11, 1.0, torch.float64
)
@settings(max_examples=60, deadline=None)
def test_squares_are_as_near_as_they_say(
    seed, widths, width, lengths, longest, apart, dtype
):
    """Against the sums of outer products in float64, of rows that cancel, in all three
    ways; rows are parts of larger tensors, and a unit may be longer than the compiled
    room.
    """
    lengths = [*lengths, longest]
    record = np.repeat(np.arange(len(lengths)), lengths)
    draw, units = (
        Cancelling(seed=seed, size=3.0, apart=apart),
        torch.arange(len(lengths)),
    )
    g = draw.opposite(len(record) + 2, width)[2:].to(dtype)
    terms = [
        (draw.alike(len(record) + 2, w)[2:].to(dtype), 0.7 + k)
        for k, w in enumerate(widths)
    ]
    exact, sizes = [], []
    for unit in units.tolist():
        own = torch.from_numpy(record == unit)
        each = g[own].double()
        inner = torch.full((len(each),), 0.3).double()
        inner += sum(w * a[own].double().square().sum(1) for a, w in terms)
        parts = [w * (each.t() @ a[own].double()).square().sum() for a, w in terms]
        exact.append(float(sum(parts) + 0.3 * each.sum(0).square().sum()))
        sizes.append(float((each.norm(dim=1) * inner.sqrt()).sum()))
    for way in ("compiled", "batched in float64", "batched in float32, as on a GPU"):
        with pytest.MonkeyPatch.context() as patch:
            if way != "compiled":
                patch.setattr(gram, "_native_norms", lambda: None)
            if way.endswith("GPU"):
                patch.setattr(gram, "_is_double", lambda g: False)
            rows = Units(units, len(lengths)).of(Rows(record, len(lengths)))
            found = gram.gram_norms(rows, terms, g, 0.3)
        right, size = torch.tensor(exact).double(), torch.tensor(sizes).double()
        torch.testing.assert_close(found.size.total, size, rtol=1e-5, atol=0)
        sums = found.size.rounding * (2 * right.sqrt() + found.size.rounding)
        assert not found.relative.any() or way != "batched in float64"
        off = (found.squares - right).abs()
        assert bool((off <= found.relative * size.square() + sums).all())

"""Clipped sums against the definition: one autograd call a unit."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from tests.models._builds import (
    MODELS,
    TOLERANCE,
    assert_bounds,
    build_model,
    random_batch,
    trained,
)
from tests.privacy.definition import clipped_sum as definition
from trainables.errors import InvalidInput
from trainables.layers import bookkeeping
from trainables.layers.bookkeeping import clipped_sum, gradient, supports, unsupported_modules
from trainables.layers.crf.statistics import within_range
from trainables.layers.embedding import Embedding
from trainables.layers.gram import gram_norms
from trainables.layers.linear import Linear
from trainables.layers.packing import Rows, one_row_each
from trainables.layers.tape import Tape
from trainables.layers.units import Units

NUM_RECORDS = 9
UNITS = {
    "a record each": (torch.arange(9), 9),
    "a shuffled record each": (torch.tensor([3, 8, 0, 1, 2, 7, 6, 5, 4]), 9),
    "all in one": (torch.zeros(9, dtype=torch.int64), 1),
    "mixed sizes and empty ones": (torch.tensor([7, 1, 3, 3, 0, 1, 2, 5, 5]), 9),
}


def assert_close_by_parameter(model: nn.Module, ours: Tensor, truth: Tensor) -> None:
    sizes = [p.numel() for p in trained(model)]
    for mine, its in zip(ours.split(sizes), truth.split(sizes), strict=True):
        assert (mine - its).norm() <= TOLERANCE * its.norm() + 1e-9


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("name", MODELS)
def test_norms_and_sum_equal_the_definition(name: str, units: str) -> None:
    torch.manual_seed(0)
    model = build_model(name)
    assert supports(model)
    model.begin_step("a", 1)  # dropout on, the same masks in both
    batch = random_batch(model, NUM_RECORDS, seed=3)
    of_record, num_units = UNITS[units]
    size = sum(p.numel() for p in trained(model))
    arguments = {
        "unit_of_record": of_record,
        "num_units": num_units,
        "weight_of_record": torch.rand(NUM_RECORDS) + 0.1,
        "group_scale": torch.rand(len(trained(model))) + 0.5,
    }
    truth, ours = torch.zeros(size), torch.zeros(size)
    norms = definition(model, batch, out=truth, max_grad_norm=1.0, **arguments)
    clip = float(norms[norms > 0].median())  # some clipped, some not
    truth.zero_()
    definition(model, batch, out=truth, max_grad_norm=clip, **arguments)
    found = clipped_sum(model, batch, out=ours, max_grad_norm=clip, **arguments)
    assert_bounds(found, norms)
    assert_close_by_parameter(model, ours, truth)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_the_sum_is_added_and_the_plain_gradient_is_autograds(name: str) -> None:
    model = build_model(name).eval()
    batch = random_batch(model, NUM_RECORDS, seed=4)
    weights = torch.rand(NUM_RECORDS)
    truth = torch.autograd.grad((model.losses(batch) * weights).sum(), trained(model))
    flat = torch.cat([g.flatten() for g in truth])
    ours = torch.zeros_like(flat)
    gradient(model, batch, weights, ours)
    assert_close_by_parameter(model, ours, flat)
    gradient(model, batch, weights, ours)
    assert_close_by_parameter(model, ours, 2 * flat)


@pytest.mark.parametrize("units", ["a record each", "mixed sizes and empty ones"])
def test_a_crf_of_wide_scores_is_clipped_too(units: str) -> None:
    """Scores whose range leaves exponential space: their sums have clip factors as the others."""
    torch.manual_seed(0)
    model = build_model("clc, one layer, frozen words", dropout=0.0)
    with torch.no_grad():
        model.crf.transitions.mul_(500)
    assert not within_range(model.crf.scores)
    batch = random_batch(model, NUM_RECORDS, seed=3)
    of_record, num_units = UNITS[units]
    size = sum(p.numel() for p in trained(model))
    arguments = {
        "unit_of_record": of_record,
        "num_units": num_units,
        "weight_of_record": torch.rand(NUM_RECORDS) + 0.1,
        "group_scale": torch.ones(len(trained(model))),
        "max_grad_norm": 0.1,
    }
    truth, ours = torch.zeros(size), torch.zeros(size)
    norms = definition(model, batch, out=truth, **arguments)
    assert_bounds(clipped_sum(model, batch, out=ours, **arguments), norms)
    assert_close_by_parameter(model, ours, truth)


class Tied(nn.Module):
    """One table used to look up, and twice as a matrix; a bias used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Embedding(11, 6)
        self.out = Linear(6, 11)
        self.out.weight = self.table.weight
        self.again = Linear(6, 11)
        self.again.weight = self.table.weight
        self.again.bias = self.out.bias
        self.free = Linear(6, 6)

    def losses(self, batch: SimpleNamespace) -> Tensor:
        x = torch.tanh(self.free(self.table(batch.ids, batch.rows), batch.rows))
        y = self.out(x, batch.rows) + self.again(x.sin(), batch.rows)
        record = torch.from_numpy(batch.rows.record)
        return x.new_zeros(batch.rows.num_records).index_add(0, record, y.logsumexp(1))


def test_tied_weights_have_their_cross_terms() -> None:
    torch.manual_seed(0)
    model = Tied()
    record = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 3, 3])
    batch = SimpleNamespace(ids=torch.randint(11, (10,)), rows=Rows(record.numpy(), 4))
    arguments = {
        "unit_of_record": torch.tensor([0, 2, 1, 2]),
        "num_units": 3,
        "weight_of_record": torch.rand(4),
        "group_scale": torch.rand(len(trained(model))) + 0.5,
        "max_grad_norm": 2.0,
    }
    size = sum(p.numel() for p in trained(model))
    truth, ours = torch.zeros(size), torch.zeros(size)
    norms = definition(model, batch, out=truth, **arguments)
    found = clipped_sum(model, batch, out=ours, **arguments)
    assert_bounds(found, norms)
    assert_close_by_parameter(model, ours, truth)


@pytest.mark.parametrize("name", MODELS)
def test_a_unit_that_is_not_finite_adds_nothing(name: str) -> None:
    model = build_model(name).eval()
    batch = random_batch(model, NUM_RECORDS, seed=5)
    good = model.losses

    def broken(batch: object) -> Tensor:
        factor = torch.ones(NUM_RECORDS)
        factor[4] = torch.inf
        return good(batch) * factor

    of_record = torch.tensor([0, 1, 2, 3, 4, 5, 6, 4, 8])
    size = sum(p.numel() for p in trained(model))
    arguments = {
        "unit_of_record": of_record,
        "num_units": 9,
        "max_grad_norm": 1.0,
        "group_scale": torch.ones(len(trained(model))),
    }
    truth, ours = torch.zeros(size), torch.zeros(size)
    without = (of_record != 4).float()
    definition(model, batch, out=truth, weight_of_record=without, **arguments)
    model.losses = broken
    norms = clipped_sum(model, batch, out=ours, weight_of_record=torch.ones(9), **arguments)
    assert norms.isfinite().tolist() == [unit != 4 for unit in range(9)]
    assert_close_by_parameter(model, ours, truth)


@pytest.mark.parametrize("width", [2, 40], ids=["sum is cheaper", "Gram is cheaper"])
def test_both_ways_to_a_norm_agree(width: int) -> None:
    torch.manual_seed(0)
    rows = Units(torch.tensor([1, 0, 1]), 3).of(Rows(torch.tensor([0, 0, 1, 2, 2, 2]).numpy(), 3))
    a, b, g = torch.randn(6, width), torch.randn(6, width), torch.randn(6, width)
    found = gram_norms(rows, [(a, 0.5), (b, 2.0)], g, 3.0).squares
    for unit, taken in enumerate(([2], [0, 1, 3, 4, 5], [])):
        terms = [0.5 * (g[taken].T @ a[taken]).square().sum()]
        terms.append(2.0 * (g[taken].T @ b[taken]).square().sum())
        terms.append(3.0 * g[taken].sum(0).square().sum())
        right = torch.stack(terms).sum().double()
        torch.testing.assert_close(found[unit], right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [7, 11, 13, 15, 18, 23])
def test_a_gram_that_reads_beyond_its_unit_takes_nothing_from_there(size: int) -> None:
    """Units of a size whose Grams are rounded up, the last one at the very end, one broken."""
    torch.manual_seed(0)
    record = torch.arange(3).repeat_interleave(size)
    rows = Units(torch.arange(3), 3).of(Rows(record.numpy(), 3))
    a, g = torch.randn(3 * size, 30), torch.randn(3 * size, 40)
    g[size : 2 * size] = torch.nan
    found = gram_norms(rows, [(a, 1.0)], g, 0.0).squares
    for unit in (0, 2):
        taken = slice(unit * size, (unit + 1) * size)
        truth = (g[taken].T @ a[taken]).square().sum().double()
        torch.testing.assert_close(found[unit], truth, rtol=1e-5, atol=0)
    assert found[1].isnan()


class Strange(nn.Module):
    """A layer without books, or a parameter that goes past its layer."""

    def __init__(self, *, leak: bool) -> None:
        super().__init__()
        self.known = Linear(3, 1)
        if not leak:
            self.filter = nn.Conv1d(1, 1, 1)

    def losses(self, batch: Tensor) -> Tensor:
        y = self.known(batch, one_row_each(len(batch))).squeeze(1)
        return y + self.known.weight.sum()


def test_what_is_not_known_is_refused_by_name() -> None:
    arguments = {
        "unit_of_record": torch.arange(2),
        "num_units": 2,
        "weight_of_record": torch.ones(2),
        "max_grad_norm": 1.0,
    }
    model = Strange(leak=False)
    assert not supports(model)
    assert unsupported_modules(model) == ("filter (Conv1d)",)
    with pytest.raises(InvalidInput, match="no book-keeping for filter \\(Conv1d\\)"):
        clipped_sum(
            model, torch.ones(2, 3), out=torch.zeros(6), group_scale=torch.ones(4), **arguments
        )
    model = Strange(leak=True)
    assert supports(model)
    with pytest.raises(InvalidInput, match=r"known\.weight: used outside its layer"):
        clipped_sum(
            model, torch.ones(2, 3), out=torch.zeros(4), group_scale=torch.ones(2), **arguments
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_grad_norm": 0.0}, "expected max_grad_norm > 0, got 0.0"),
        ({"group_scale": torch.zeros(2)}, "expected group_scale to be 2 positive numbers"),
        ({"unit_of_record": torch.tensor([0, 2])}, r"expected unit_of_record in 0\.\.1"),
        ({"unit_of_record": torch.tensor([-1, 0])}, r"expected unit_of_record in 0\.\.1"),
        ({"out": torch.zeros(5)}, r"expected out to be a flat vector of 4, got \(5,\)"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, object], message: str) -> None:
    arguments = {
        "unit_of_record": torch.arange(2),
        "num_units": 2,
        "weight_of_record": torch.ones(2),
        "max_grad_norm": 1.0,
        "group_scale": torch.ones(2),
        "out": torch.zeros(4),
    }
    with pytest.raises(InvalidInput, match=message):
        clipped_sum(Strange(leak=True), torch.ones(2, 3), **{**arguments, **change})


@pytest.mark.parametrize("name", MODELS)
def test_nothing_of_a_step_outlives_it(name: str) -> None:
    """A cycle through the autograd graph would keep a step's activations for several steps."""
    model = build_model(name)
    batch = random_batch(model, NUM_RECORDS, seed=6)
    size = sum(p.numel() for p in trained(model))
    alive = weakref.WeakSet()

    def watched(*arguments: object) -> Tape:
        tape = Tape(*arguments)
        alive.add(tape)
        return tape

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bookkeeping, "Tape", watched)
            clipped_sum(
                model,
                batch,
                unit_of_record=torch.arange(NUM_RECORDS),
                num_units=NUM_RECORDS,
                weight_of_record=torch.ones(NUM_RECORDS),
                max_grad_norm=1.0,
                group_scale=torch.ones(len(trained(model))),
                out=torch.zeros(size),
            )
            gradient(model, batch, torch.ones(NUM_RECORDS), torch.zeros(size))
        assert not alive
    finally:
        gc.enable()

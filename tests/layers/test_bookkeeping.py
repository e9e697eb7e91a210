"""Clipped sums against the definition: one autograd call a unit."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.models._builds import (
    MODELS,
    assert_close_by_parameter,
    assert_sum_is_the_definitions,
    build_model,
    random_batch,
    sum_by,
    trained,
)
from tests.privacy.definition import clipped_sum as definition
from tests.refusals import refused
from trainables.dp.layers import bookkeeping
from trainables.dp.layers.bookkeeping import clipped_sum, gradient, unsupported_modules
from trainables.dp.layers.embedding import Embedding
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import Rows, one_row_each
from trainables.dp.layers.recorder import Recorder

NUM_RECORDS = 9
UNITS = {
    "a record each": (torch.arange(9), 9),
    "a shuffled record each": (torch.tensor([3, 8, 0, 1, 2, 7, 6, 5, 4]), 9),
    "all in one": (torch.zeros(9, dtype=torch.int64), 1),
    "mixed sizes and empty ones": (torch.tensor([7, 1, 3, 3, 0, 1, 2, 5, 5]), 9),
}


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("name", MODELS)
def test_norms_and_sum_equal_the_definition(name, units):
    torch.manual_seed(0)
    model = build_model(name)
    assert not unsupported_modules(model)
    model.begin_step("a", 1)  # dropout on, the same masks in both
    assert_sum_is_the_definitions(
        model,
        random_batch(model, NUM_RECORDS, seed=3),
        units=UNITS[units],
        weights=torch.rand(NUM_RECORDS) + 0.1,
        scale=torch.rand(len(trained(model))) + 0.5,
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_sum_is_added_and_the_plain_gradient_is_autograds(name):
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


class Tied(nn.Module):
    """One table used to look up, and twice as a matrix; a bias used twice."""

    def __init__(self):
        super().__init__()
        self.table = Embedding(11, 6)
        self.out = Linear(6, 11)
        self.out.weight = self.table.weight
        self.again = Linear(6, 11)
        self.again.weight = self.table.weight
        self.again.bias = self.out.bias
        self.free = Linear(6, 6)

    def losses(self, batch):
        x = torch.tanh(self.free(self.table(batch.ids, batch.rows), batch.rows))
        y = self.out(x, batch.rows) + self.again(x.sin(), batch.rows)
        record = torch.from_numpy(batch.rows.record)
        return x.new_zeros(batch.rows.num_records).index_add(0, record, y.logsumexp(1))


def test_tied_weights_have_their_cross_terms():
    torch.manual_seed(0)
    model = Tied()
    record = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 3, 3])
    assert_sum_is_the_definitions(
        model,
        SimpleNamespace(ids=torch.randint(11, (10,)), rows=Rows(record.numpy(), 4)),
        units=(torch.tensor([0, 2, 1, 2]), 3),
        weights=torch.rand(4),
        scale=torch.rand(len(trained(model))) + 0.5,
        clip=2.0,
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_unit_that_is_not_finite_adds_nothing(name):
    model = build_model(name).eval()
    batch = random_batch(model, NUM_RECORDS, seed=5)
    good = model.losses

    def broken(batch):
        factor = torch.ones(NUM_RECORDS)
        factor[4] = torch.inf
        return good(batch) * factor

    of_record = torch.tensor([0, 1, 2, 3, 4, 5, 6, 4, 8])
    units = {"unit_of_record": of_record}
    without = (of_record != 4).float()
    _, truth = sum_by(definition, model, batch, 9, weight_of_record=without, **units)
    model.losses = broken
    norms, ours = sum_by(clipped_sum, model, batch, 9, **units)
    assert norms.isfinite().tolist() == [unit != 4 for unit in range(9)]
    assert_close_by_parameter(model, ours, truth)


class Strange(nn.Module):
    """A layer without books, or a parameter that goes past its layer."""

    def __init__(self, *, leak):
        super().__init__()
        self.known = Linear(3, 1)
        if not leak:
            self.filter = nn.Conv1d(1, 1, 1)

    def losses(self, batch):
        return (
            self.known(batch, one_row_each(len(batch))).squeeze(1)
            + self.known.weight.sum()
        )


def of_strange(model, **change):
    sum_by(clipped_sum, model, torch.ones(2, 3), 2, **change)


def test_what_is_not_known_is_refused_by_name():
    model = Strange(leak=False)
    assert unsupported_modules(model) == ("filter (Conv1d)",)
    with refused("no book-keeping for filter \\(Conv1d\\)"):
        of_strange(model)
    model = Strange(leak=True)
    assert not unsupported_modules(model)
    with refused(r"known\.weight: used outside its layer"):
        of_strange(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_grad_norm": 0.0}, "expected max_grad_norm > 0, got 0.0"),
        (
            {"group_scale": torch.zeros(2)},
            "expected group_scale to be 2 positive numbers",
        ),
        (
            {"unit_of_record": torch.tensor([0, 2])},
            r"expected unit_of_record in 0\.\.1",
        ),
        (
            {"unit_of_record": torch.tensor([-1, 0])},
            r"expected unit_of_record in 0\.\.1",
        ),
        ({"out": torch.zeros(5)}, r"expected out to be a flat vector of 4, got \(5,\)"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with refused(message):
        of_strange(Strange(leak=True), **change)


@pytest.mark.parametrize("name", MODELS)
def test_nothing_of_a_step_outlives_it(name):
    """A cycle through the autograd graph would keep a step's activations for several
    steps.
    """
    model = build_model(name)
    batch = random_batch(model, NUM_RECORDS, seed=6)
    alive = weakref.WeakSet()

    def watched(*arguments):
        tape = Recorder(*arguments)
        alive.add(tape)
        return tape

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bookkeeping, "Recorder", watched)
            _, out = sum_by(clipped_sum, model, batch, NUM_RECORDS)
            gradient(model, batch, torch.ones(NUM_RECORDS), out)
        assert not alive
    finally:
        gc.enable()

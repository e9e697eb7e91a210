"""Models of `transformers` with adapters: exact per-record norms, refused variants."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.models._builds import assert_sum_is_the_definitions, trained
from tests.models._texts import EVERY, Letters, encode_texts, llama, with_adapters
from tests.refusals import refused
from trainables.dp.layers.bookkeeping import unsupported_modules
from trainables.models.text.hub_lm import HubLm, require_records_apart


@pytest.mark.parametrize("prompted", [False, True], ids=["plain", "prompted"])
def test_adapters_norms_equal_single_record_passes(prompted):
    model = with_adapters(llama())
    assert unsupported_modules(model) == ()
    assert (
        len(trained(model)) == 2 * 7 * 2
    )  # two thin matrices beside seven maps of two layers
    batch = encode_texts(prompted=prompted).batch(EVERY)
    assert_sum_is_the_definitions(model, batch, clip=0.1, within=5e-4)


@pytest.mark.parametrize("kind", ["default", "dynamic"])
def test_positions_that_depend_on_the_longest_record_are_refused(kind):
    model = llama(
        max_position_embeddings=16,
        initializer_range=0.3,
        rope_parameters={"rope_type": kind, "factor": 4.0, "rope_theta": 10_000.0},
    )
    require_records_apart(model, longest=16, name="x")
    if kind == "default":
        require_records_apart(model, longest=40, name="x")
        return
    with refused(r"to be a causal LM, got 'x'"):
        require_records_apart(model, longest=40, name="x")


def test_train_mode_leaves_foreign_modules_without_dropout():
    model = with_adapters(llama()).train()
    assert model.training
    assert not any(module.training for module in model.inner.modules())
    assert not model.eval().training


class TimeFirst(nn.Module):
    """A language model whose map reads the first token of each record, then the second,
    ...
    """

    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(vocab_size=Letters.size)
        self.table = nn.Embedding(Letters.size, 6)
        self.map = nn.Linear(6, 6)
        self.output = nn.Linear(6, Letters.size)

    @property
    def base_model(self):
        return self

    def get_output_embeddings(self):
        return self.output

    def forward(self, input_ids, **_):
        x = self.table(input_ids).transpose(0, 1)
        return ((x + self.map(x).tanh()).transpose(0, 1),)


def test_maps_whose_rows_are_not_known_are_refused():
    """A record's norm would be that of other rows, and its clipped gradient longer than
    C.
    """
    torch.manual_seed(0)
    model = HubLm(TimeFirst(), provenance="weights of x")
    require_records_apart(model, longest=16, name="x")  # no record's loss changes
    with refused("one record after another"):
        model.adapt(rank=2, alpha=8.0)

"""Encoders of `transformers` with adapters: exact clipping in every family, refusals,
one trial.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from sweep.results.export_encoder import write_encoder
from tests.models._builds import (
    SCHEMA,
    alone,
    build_model,
    built,
    encoder_in,
    random_batch,
    sum_by,
    trained,
)
from tests.models._texts import moved
from tests.refusals import refused
from tests.tasks.test_nlu_trial import config, place, run
from trainables import saved
from trainables.config.trial import data_config, parse
from trainables.dp.layers import bookkeeping
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import Rows
from trainables.dp.layers.recorder import plain
from trainables.errors import InvalidInput, TrialFailed
from trainables.models.encoders import adapters
from trainables.models.encoders.adapters import Adapted, AdaptedForeign, Foreign

__all__ = ["place"]

FAMILIES = ("bert", "roberta", "mpnet", "deberta", "deberta-v2", "modernbert", "albert")


def of_family(family, **fields):
    """In float64, its adapters away from their start; ModernBERT's masks allow float32
    alone.
    """
    model = built(name="lora", encoder=encoder_in(family)[0], lora_rank=2, **fields)
    model = model if family == "modernbert" else model.double()
    torch.manual_seed(1)
    return moved(model)


class Losses(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        return self.model.losses(batch).squeeze(0)


@pytest.mark.parametrize("family", FAMILIES)
def test_clipped_sums_are_those_of_each_record_alone(family):
    """By autograd through torch's own operations, a record at a time and never
    padded.
    """
    model = of_family(family)
    number = 6
    batch = random_batch(model, number, seed=3, lengths=[3, 1, 7, 12, 2, 90])
    parameters = {
        f"model.{n}": p for n, p in model.named_parameters() if p.requires_grad
    }
    rows = []
    for record in range(number):
        with plain():
            loss = functional_call(Losses(model), parameters, (alone(batch, record),))
        found = torch.autograd.grad(loss, list(parameters.values()))
        rows.append(torch.cat([each.flatten() for each in found]))
    norms = torch.stack([row.norm() for row in rows])
    bound = float(norms.median()) / 2
    dtype = rows[0].dtype
    found, out = sum_by(
        bookkeeping.clipped_sum,
        model,
        batch,
        number,
        weight_of_record=torch.ones(number, dtype=dtype),
        max_grad_norm=bound,
        out=torch.zeros(len(rows[0]), dtype=dtype),
    )
    within = 1e-9 if dtype == torch.float64 else 1e-4
    assert bool((found >= norms * (1 - within)).all())
    assert bool(
        (found <= norms * (1 + 2e-3)).all()
    )  # bounds of what float32 would round
    right = sum(
        row * min(1.0, bound / float(norm))
        for row, norm in zip(rows, found, strict=True)
    )
    assert float((out - right).norm()) <= within * float(right.norm())
    of_adapters = [
        p for name, p in model.named_parameters() if name.endswith("down.weight")
    ]
    assert (
        len(of_adapters) == len(trained(model)) // 2 - 2
    )  # beside two heads with biases
    kept = torch.cat(
        [torch.full((p.numel(),), "inner." in n) for n, p in parameters.items()]
    )
    by_adapters = torch.stack([row[kept].norm() for row in rows])
    torch.testing.assert_close(
        adapters._norms(model.float(), batch), by_adapters.float(), rtol=2e-3, atol=0.0
    )


@pytest.mark.parametrize(
    ("family", "fields", "said"),
    [
        ("deberta-v2", {"lora_targets": ["query_proj"]}, "read every token of a batch"),
        ("deberta", {"lora_targets": ["pos_proj"]}, "read every token of a batch"),
        ("mpnet", {"lora_targets": ["query"]},
         r"lora_targets among dense, k, o, q, v with .*, got query"),
        ("bert", {"lora_rank": 25}, r"1 <= model\.lora_rank <= 24, the width of the"
                                    r" encoder, got"),
    ],
)  # fmt: skip
def test_what_a_family_does_not_allow_is_refused_by_the_plan(family, fields, said):
    model = parse(
        {"model": {"name": "lora", "encoder": encoder_in(family)[0], **fields}}
    ).model
    model.require_usable(data_config(name="atis"))
    with refused(said):
        model.build(schema=SCHEMA, seed=0)


def test_frozen_weights_in_bfloat16_take_half_and_stay_the_same_in_float32():
    whole, half = (
        build_model("lora", frozen_weights=kind) for kind in ("fp32", "bf16")
    )
    sizes = [
        sum(p.nbytes for n, p in m.named_parameters() if ".layer." in n)
        for m in (whole, half)
    ]
    assert sizes[1] < 0.7 * sizes[0]
    batch = random_batch(whole, 6, seed=1)
    torch.testing.assert_close(
        half.losses(batch), whole.losses(batch), rtol=0.05, atol=0.05
    )
    assert half.losses(batch).dtype == torch.float32


@pytest.mark.parametrize("bias", [False, True])
def test_a_frozen_map_is_rounded_where_it_is_asked_for(bias):
    x, whole, half = torch.randn(4, 5), Foreign(), Foreign()
    for model in (whole, half):
        model.hold(nn.Sequential(nn.Linear(5, 7, bias=bias)), in_bf16=model is half)
        model.inner.register_buffer("kept", torch.ones(1))
        model.inner[0].register_buffer("deep", torch.ones(1))
        model.inner.register_buffer("left", torch.ones(1), persistent=False)
        model.load_state_dict(model.state_dict())
    around = nn.ModuleDict({"head": nn.Linear(1, 1), "own": whole})
    trained = {f"own.{name}" for name, _ in whole.named_parameters()}
    assert around.state_dict().keys() == {"head.weight", "head.bias", *trained}
    assert {p.dtype for p in whole.parameters()} == {torch.float32}
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert torch.equal(
        half.inner(x), F.linear(x, *(p.float() for p in half.parameters()))
    )
    assert torch.equal(whole.inner(x), F.linear(x, *whole.parameters()))


@pytest.mark.parametrize(
    ("kind", "base"), [(Adapted, Linear), (AdaptedForeign, nn.Linear)]
)
def test_adapters_add_alpha_over_rank_of_their_product(kind, base):
    with refused("lora_rank <= 5, got 6"):
        kind(base(5, 7), rank=6, alpha=3.0)
    made = kind(base(5, 7), rank=2, alpha=3.0)
    assert not made.up.weight.any(), "nothing at first"
    nn.init.normal_(made.up.weight)
    x, rows = torch.randn(1, 4, 5), Rows(np.arange(4), 4)
    found = made(x[0], rows) if kind is Adapted else made(x)[0]
    expected = F.linear(x[0], made.base.weight, made.base.bias)
    expected = expected + 1.5 * x[0] @ made.down.weight.t() @ made.up.weight.t()
    torch.testing.assert_close(found, expected)


def chosen(**training):
    model = {"name": "lora", "encoder": encoder_in("roberta")[0], "lora_rank": 2}
    return config("dp_sgd", training={"epochs": 2, **training}, model=model)


def test_a_trial_trains_checks_itself_and_is_read_again(place, tmp_path):
    result, reports = run(place, tmp_path, chosen(physical_batch_size=5))
    assert reports[-1].metrics["clip_difference"] < 1e-4
    assert "(roberta, 3 layers" in result.privacy.provenance
    state = saved.load_file(str(tmp_path / "model" / "weights.safetensors"))
    assert {name.rpartition(".")[2] for name in state} == {"weight", "bias"}
    assert not any(".base." in name or "embeddings" in name for name in state)
    asked = [saved.unlabelled(["call", "ann"]), saved.unlabelled(["play", "one"])]
    said = saved.load(tmp_path).read(asked)
    assert write_encoder(tmp_path / "model") == tmp_path / "model" / "encoder"
    alone = saved.load(tmp_path).read(asked)  # from the copy
    assert torch.equal(torch.tensor(said.features), torch.tensor(alone.features))


@pytest.mark.parametrize("at_first", [True, False])
def test_rows_given_to_another_record_are_seen(place, tmp_path, monkeypatch, at_first):
    """A mutant of the book: two records' rows are exchanged, from the first or in a
    trial alone.
    """
    right = AdaptedForeign.forward

    def wrong(self, x):
        if self.rows.num_records > (
            1 if at_first else 3
        ):  # the made ones that are tried
            record = self.rows.record.copy()
            record[record < 2] = 1 - record[record < 2]
            self.rows = replace(self.rows, record=record)
        return right(self, x)

    monkeypatch.setattr(AdaptedForeign, "forward", wrong)
    line = "one record after another" if at_first else "of its recomputation in float64"
    with refused(line, InvalidInput if at_first else TrialFailed):
        run(place, tmp_path, chosen())

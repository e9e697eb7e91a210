"""Small models of both kinds, and random packed batches for them."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from search_spaces.expansion import own_fields
from tests.encoders import family_folders
from tests.privacy.definition import clipped_sum as definition
from trainables import catalogue
from trainables.config import model_part
from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.guarantee import per_record
from trainables.layers.bookkeeping import clipped_sum

SCHEMA = LabelSchema(
    intents=tuple("abcde"), slots=tuple(f"slot{n}" for n in range(6)), source="invented"
)
TYPES = ("flights", "from", "Boston", "to", "o'clock", "4:30pm", "é", "$", "x" * 40, "18th")
TOLERANCE = 1e-4  # clip factors count what float32 may round
FULLY = {
    "clc": {"name": "clc", "hidden_size": 16, "word_buckets": 30, "word_dim": 6},
    "clc, one layer, frozen words": {
        "name": "clc",
        "hidden_size": 40,
        "num_layers": 1,
        "word_buckets": 30,
        "freeze_embeddings": True,
    },
    "bert": {
        "name": "bert",
        "hidden_size": 24,
        "num_heads": 2,
        "num_layers": 2,
        "word_buckets": 40,
        "intermediate_size": 40,
    },
}
PARTLY = {"bert, biases": {**FULLY["bert"], "trained": "biases"}}
# Around a small MPNet of `transformers`.
ADAPTED = {
    "lora": {"name": "lora", "lora_rank": 2},
    "lora, bf16": {
        "name": "lora", "lora_rank": 2, "frozen_weights": "bf16",
        "lora_targets": ("q", "o"),
    },
}  # fmt: skip
MODELS = FULLY | PARTLY | ADAPTED


@functools.cache
def encoder_in(family):
    """The folder of a small random encoder of the family, and what removes it at the end."""
    place = tempfile.TemporaryDirectory()
    family_folders.write(Path(place.name), family)
    return place.name, place


def read_fields(fields):
    """Those that a model reads beside the others."""
    own = own_fields({"model": fields})[0]["model"]
    return own


def built(**fields):
    """A model of exactly these fields."""
    config = model_part(**fields)
    return catalogue.entry("models", config.name).build(config, schema=SCHEMA, seed=0)


def build_model(name, **changes):
    """One of `MODELS` with some fields changed; those that it does not read are dropped."""
    fields = {"dropout": 0.2} | MODELS[name] | changes
    if name in ADAPTED:
        fields = {"encoder": encoder_in("mpnet")[0]} | fields
    model = built(**read_fields(fields))
    for place, parameter in model.named_parameters():
        if name in ADAPTED and place.endswith("up.weight"):  # adapters that have left their start
            torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(0))
    return model


def random_batch(model, num_records, *, seed, longest=8):
    """Lengths 1 to `longest`, words that repeat, ids 100, 101, ..."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, num_records)
    token_ids = rng.integers(0, len(TYPES), lengths.sum()).astype(np.int32)
    return PackedBatch(
        inputs=model.feature_table(TYPES).collate(token_ids, lengths),
        lengths=torch.from_numpy(lengths),
        intents=torch.from_numpy(rng.integers(0, len(SCHEMA.intents), num_records)),
        tags=torch.from_numpy(rng.integers(0, len(SCHEMA.tags), lengths.sum())),
        text_keys=torch.arange(100, 100 + num_records),
    )


def assert_bounds(found, norms):
    """Norms are upper bounds: what float32 may round is in them, and no more."""
    assert bool((found >= norms * (1 - 1e-6)).all())
    torch.testing.assert_close(found, norms, rtol=TOLERANCE, atol=0)


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def assert_close_by_parameter(model, ours, truth, *, within=TOLERANCE):
    sizes = [p.numel() for p in trained(model)]
    for mine, its in zip(ours.split(sizes), truth.split(sizes), strict=True):
        assert (mine - its).norm() <= within * its.norm() + 1e-9


def assert_sum_is_the_definitions(
    model, batch, *, units=None, weights=None, scale=None, clip=None, within=TOLERANCE
):
    """The clipped sum of a step against one autograd call a unit; the norms.

    By default each record is a unit of weight 1, and about half of the units are clipped.
    """
    mine, number = trained(model), len(model.losses(batch))
    of_record, num_units = units or (torch.arange(number), number)
    arguments = {
        "unit_of_record": of_record,
        "num_units": num_units,
        "weight_of_record": torch.ones(number) if weights is None else weights,
        "group_scale": torch.ones(len(mine)) if scale is None else scale,
    }

    def by(way, bound):
        out = torch.zeros(sum(p.numel() for p in mine))
        return way(model, batch, out=out, max_grad_norm=bound, **arguments), out

    if clip is None:
        norms, _ = by(definition, 1.0)
        clip = float(norms[norms > 0].median())
    (norms, truth), (found, ours) = by(definition, clip), by(clipped_sum, clip)
    assert_bounds(found, norms)
    assert_close_by_parameter(model, ours, truth, within=within)
    assert all(p.grad is None for p in model.parameters())
    return norms


def by_record(model, batch, weights, bound):
    """Clipped sum, norms and losses by `torch.func`, whose units are records."""
    mine = trained(model)
    out = torch.zeros(sum(p.numel() for p in mine))
    scale = torch.ones(len(mine), dtype=torch.float64)
    found = per_record.clipped_sum(
        model, batch, weight_of_record=weights, max_grad_norm=bound, group_scale=scale, out=out
    )
    return out, *found


def save_model(folder, built, config, *, schema=SCHEMA, **about):
    """Weights and description, as a trial leaves them in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous().clone() for name, tensor in built.state_dict().items()}
    save_file(state, str(folder / "weights.safetensors"))
    fields = {
        "model": config.model_dump(mode="json"),
        "intents": schema.intents,
        "slots": schema.slots,
        "schema_source": schema.source,
    }
    (folder / "model.json").write_text(json.dumps(fields | about), encoding="utf-8")
    return folder

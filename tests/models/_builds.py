"""Small models of both kinds, and random packed batches for them."""

import functools
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from search_spaces.expansion import own_fields
from tests.encoders import family_folders
from tests.privacy.definition import clipped_sum as definition
from trainables.config.trial import data_config, model_part
from trainables.data.batches import PackedBatch
from trainables.data.corpus import open_corpus
from trainables.data.records import LabelSchema
from trainables.dp import per_record
from trainables.dp.layers.bookkeeping import clipped_sum

SCHEMA = LabelSchema(
    intents=tuple("abcde"), slots=tuple(f"slot{n}" for n in range(6)), source="invented"
)
TYPES = (
    "flights",
    "from",
    "Boston",
    "to",
    "o'clock",
    "4:30pm",
    "é",
    "$",
    "x" * 40,
    "18th",
)
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
    """The folder of a small random encoder of the family, and what removes it at the
    end.
    """
    place = tempfile.TemporaryDirectory()
    family_folders.write(Path(place.name), family)
    return place.name, place


def read_fields(fields):
    """Those that a model reads beside the others."""
    return own_fields({"model": fields})[0]["model"]


def built(**fields):
    """A model of exactly these fields."""
    config = model_part(**fields)
    return config.build(schema=SCHEMA, seed=0)


def build_model(name, **changes):
    """One of `MODELS` with some fields changed; those that it does not read are
    dropped.
    """
    fields = {"dropout": 0.2} | MODELS[name] | changes
    if name in ADAPTED:
        fields = {"encoder": encoder_in("mpnet")[0]} | fields
    model = built(**read_fields(fields))
    for place, parameter in model.named_parameters():
        if name in ADAPTED and place.endswith(
            "up.weight"
        ):  # adapters that have left their start
            torch.nn.init.normal_(
                parameter, std=0.1, generator=torch.Generator().manual_seed(0)
            )
    return model


def made_corpus(place):
    config = data_config(name="communication", num_utterances=1_000, max_records=60)
    return open_corpus(config, data_dir=place, cache_dir=place)


def random_batch(model, num_records, *, seed, longest=8, lengths=None):
    """Lengths 1 to `longest`, or those given; words that repeat, ids 100, 101, ..."""
    rng = np.random.default_rng(seed)
    lengths = (
        rng.integers(1, longest + 1, num_records)
        if lengths is None
        else np.array(lengths)
    )
    token_ids = rng.integers(0, len(TYPES), lengths.sum()).astype(np.int32)
    return PackedBatch(
        inputs=model.feature_table(TYPES).collate(token_ids, lengths),
        lengths=torch.from_numpy(lengths),
        intents=torch.from_numpy(rng.integers(0, len(SCHEMA.intents), num_records)),
        tags=torch.from_numpy(rng.integers(0, len(SCHEMA.tags), lengths.sum())),
        text_keys=torch.arange(100, 100 + num_records),
    )


def alone(batch, record):
    """One record of a batch as a batch of its own, never padded."""
    own, stop = slice(record, record + 1), int(batch.lengths[: record + 1].sum())
    tokens = slice(stop - int(batch.lengths[record]), stop)
    inputs = {name: each[tokens] for name, each in batch.inputs.items()}
    if "pieces" in inputs:
        sizes = batch.inputs["piece_lengths"]
        inputs["pieces"] = batch.inputs["pieces"].split(sizes.tolist())[record]
        inputs["piece_lengths"] = sizes[own]
        inputs["first_piece"] = inputs["first_piece"] - sizes[:record].sum()
    return replace(
        batch,
        inputs=inputs,
        lengths=batch.lengths[own],
        intents=batch.intents[own],
        tags=batch.tags[tokens],
        text_keys=batch.text_keys[own],
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


def sum_by(way, model, batch, number, **changes):
    """The norms and the sum by `way`; by default each of `number` records is a unit of
    weight 1.
    """
    mine = trained(model)
    arguments = {
        "unit_of_record": torch.arange(number),
        "num_units": number,
        "weight_of_record": torch.ones(number),
        "max_grad_norm": 1.0,
        "group_scale": torch.ones(len(mine)),
        "out": torch.zeros(sum(p.numel() for p in mine)),
    } | changes
    return way(model, batch, **arguments), arguments["out"]


def assert_sum_is_the_definitions(
    model, batch, *, units=None, weights=None, scale=None, clip=None, within=TOLERANCE
):
    """The clipped sum of a step against one autograd call a unit; the norms. By default
    each record is a unit of weight 1, and about half of the units are clipped.
    """
    number = len(model.losses(batch))
    changes = dict(zip(("unit_of_record", "num_units"), units or (), strict=False))
    changes |= {} if weights is None else {"weight_of_record": weights}
    changes |= {} if scale is None else {"group_scale": scale}
    if clip is None:
        norms, _ = sum_by(definition, model, batch, number, **changes)
        clip = float(norms[norms > 0].median())
    (norms, truth), (found, ours) = (
        sum_by(way, model, batch, number, max_grad_norm=clip, **changes)
        for way in (definition, clipped_sum)
    )
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
        model,
        batch,
        weight_of_record=weights,
        max_grad_norm=bound,
        group_scale=scale,
        out=out,
    )
    return out, *found


def save_model(folder, built, config, *, schema=SCHEMA, **about):
    """Weights and description, as a trial leaves them in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        name: tensor.contiguous().clone() for name, tensor in built.state_dict().items()
    }
    save_file(state, str(folder / "weights.safetensors"))
    fields = {
        "model": config.model_dump(mode="json"),
        "intents": schema.intents,
        "slots": schema.slots,
        "schema_source": schema.source,
    }
    (folder / "model.json").write_text(json.dumps(fields | about))
    return folder

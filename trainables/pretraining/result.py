"""From a finished pretraining to the encoder's folder: weights, public moments, card."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from trainables.encoders.about import (
    MOMENTS,
    NAMES,
    Hashes,
    about_of,
    hashes_of,
    keys_of,
    read_learnt,
    write_about,
    write_learnt,
)
from trainables.encoders.rows import BothMoments, LayerStates, Recipe, moments_of, pack
from trainables.encoders.source import Bits, save_tensors
from trainables.models._bert import Bert
from trainables.models._bert_weights import save_encoder
from trainables.pretraining.config import PretrainingConfig
from trainables.pretraining.corpora import PublicCorpus
from trainables.pretraining.loop import Pretrained
from trainables.pretraining.names import learn_names
from trainables.seeding import generator

_ROWS_FROM = 4_000  # public records that the moments are computed from


def write(
    done: Pretrained, config: PretrainingConfig, place: Path, *, bits: Bits = 32
) -> dict[str, Any]:
    """Write the folder of an encoder with its pieces and return its card; its weights have so many
    bits.
    """
    encoder, layers = done.encoder.eval(), config.kept_layers
    place.mkdir(parents=True, exist_ok=True)
    save_encoder(encoder.state_dict(), encoder.sizes, encoder.tokenizer, place, bits=bits)
    start = about_of(config.encoder.encoder)
    before = [] if start is None else [read_learnt(start)]
    write_learnt(place, [*before, *map(learnt, done.corpora)])
    found = moments(encoder, done.corpora, layers, seed=config.seed)
    save_file(pack(found), place / MOMENTS)
    names = learn_names(Recipe(encoder, layers, found), done.corpora, seed=config.seed)
    save_tensors(vars(names), place / NAMES, bits=16 if bits == 32 else bits)
    # The description last: its presence shows that the folder is complete.
    about = card(done, config)
    write_about(place, card=about, layers=layers)
    return about


def moments(
    encoder: Bert, corpora: tuple[PublicCorpus, ...], layers: tuple[int, ...], *, seed: int
) -> BothMoments:
    """Moments of tokens and records of `layers`, over records drawn equally from all corpora."""
    total = sum(len(each.train) for each in corpora)

    @torch.no_grad()
    def states() -> Iterator[LayerStates]:
        for number, each in enumerate(corpora):
            share = max(2, min(len(each.train), _ROWS_FROM * len(each.train) // total))
            drawn = generator(seed, "moments", number).permutation(each.train)[:share]
            for _, batch in each.loader.evaluation_batches(np.sort(drawn), max_tokens=2_048):
                yield encoder.layer_states(batch)

    return moments_of(states(), layers)


def card(done: Pretrained, config: PretrainingConfig) -> dict[str, Any]:
    """The card of the encoder, its corpora and start, as plain data."""
    start = about_of(config.encoder.encoder)
    return {
        "name": config.name,
        "private_records_read": 0,
        "starts_from": done.encoder.provenance,
        "corpora_of_start": [] if start is None else list(start.corpora),
        "corpora": [
            {
                "name": each.corpus.name,
                "licence": each.licence,
                "records": len(each.train),
                "held_out": len(each.held_out),
                "texts_left_out": each.left_out,
                "without_schema_label": each.unlabelled,
                "held_out_intent_accuracy": round(intents, 4),
                "held_out_tag_accuracy": round(tags, 4),
            }
            for each, (intents, tags) in zip(done.corpora, done.accuracy, strict=True)
        ],
        "left_out_by_the_lists_of": list(config.leave_out),
        "training": config.model_dump(
            mode="json",
            include={
                *("frozen_layers", "epochs", "batch_size", "learning_rate"),
                *("head_learning_rate", "tag_weight", "weight_decay", "seed"),
            },
        ),
        "code_version": _version(),
    }


def learnt(each: PublicCorpus) -> Hashes:
    """The hashes of the texts that a pretraining reads of a corpus, the held-out ones included."""
    return hashes_of(keys_of(each.corpus, np.concatenate([each.train, each.held_out])))


def _version() -> str:
    try:
        return version("dp-nlu-sweep")
    except PackageNotFoundError:
        return "unknown"

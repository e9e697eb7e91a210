"""Heads that were saved and exported are read back with the encoder in their folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sweep.results.export_encoder import write_encoder
from tests.encoders import family_folders
from tests.models._builds import SCHEMA
from trainables import saved
from trainables.config import data_config, model_part
from trainables.data.batches import Loader
from trainables.data.corpus import open_corpus
from trainables.encoders.identity import encoder_digest
from trainables.encoders.source import source_of
from trainables.errors import InvalidInput
from trainables.models.features import build
from trainables.system.communication import Alone
from trainables.tasks._inference import infer


def test_an_exported_folder_is_enough(tmp_path: Path) -> None:
    config = model_part(name="features", components=8)
    model = build(config, schema=SCHEMA, seed=0)
    torch.manual_seed(0)
    torch.nn.init.normal_(model.intent_head.weight)
    save_file(dict(model.state_dict()), str(tmp_path / "weights.safetensors"))
    about = {
        "model": config.model_dump(mode="json"),
        "intents": SCHEMA.intents,
        "slots": SCHEMA.slots,
        "schema_source": SCHEMA.source,
    }
    (tmp_path / "model.json").write_text(json.dumps(about))
    assert write_encoder(tmp_path) == tmp_path / "encoder"
    found = saved.load(tmp_path)
    assert found.config.encoder == str(tmp_path / "encoder")
    words = [saved.unlabelled(["call", "ann"])]
    ours = saved.SavedModel(model=model.eval(), config=config, schema=SCHEMA).read(words)
    np.testing.assert_allclose(found.read(words).features, ours.features, rtol=1e-5)


def test_a_saved_model_predicts_what_was_measured(tmp_path: Path) -> None:
    """It computes the rows that a trial reads from its cache."""
    data = data_config(name="health", num_utterances=1_000)
    corpus = open_corpus(data, data_dir=tmp_path, cache_dir=tmp_path)
    config = model_part(name="features")
    model = build(config, schema=corpus.schema, seed=0)
    torch.manual_seed(0)
    for head in (model.intent_head, model.tag_head):
        torch.nn.init.normal_(head.weight, std=3.0)
    ids = np.arange(len(corpus))
    loader = model.loader(corpus, cache_dir=tmp_path)
    measured = infer(model, loader, ids, comm=Alone())
    own = saved.SavedModel(model=model, config=config, schema=corpus.schema)
    said = own.read(map(saved.unlabelled, corpus.token_sequences(ids)))
    np.testing.assert_array_equal(said.intents, measured.intents)
    np.testing.assert_array_equal(np.concatenate(said.tags), np.concatenate(measured.tags))
    np.testing.assert_allclose(said.features, measured.features, atol=1e-4)


def test_the_digest_is_that_of_the_encoder_s_files(tmp_path: Path) -> None:
    family_folders.write(tmp_path / "hub", "roberta")
    before = encoder_digest(str(tmp_path / "hub"))
    assert before == source_of(str(tmp_path / "hub")).digest
    assert encoder_digest("small") == source_of("small").digest
    assert encoder_digest("scratch") == ""
    config = tmp_path / "hub" / "config.json"
    config.write_text(config.read_text() + " ")
    assert encoder_digest(str(tmp_path / "hub")) != before


def test_heads_over_an_encoder_of_the_hub(tmp_path: Path) -> None:
    """Rows are computed once, by an encoder that then is not even loaded; an export has all that
    gives them again, its public moments too."""
    family_folders.write(tmp_path / "hub", "roberta")
    config = model_part(name="features", encoder=str(tmp_path / "hub"), prior="none")
    corpus = open_corpus(
        data_config(name="communication", num_utterances=1_000),
        data_dir=tmp_path,
        cache_dir=tmp_path / "cache",
    )
    first = build(config, schema=corpus.schema, seed=0)
    assert (first.fixed.token_width, first.fixed.layers) == (49, (2, 3))
    ids = np.array([5, 900, 17])
    kept = first.loader(corpus, cache_dir=tmp_path / "cache").batch(ids).inputs
    anew = Loader(corpus, first.feature_table(corpus.types)).batch(ids).inputs
    for name, rows in kept.items():
        torch.testing.assert_close(rows, anew[name], rtol=2e-3, atol=1e-3)
    model = build(config, schema=corpus.schema, seed=0)
    model.loader(corpus, cache_dir=tmp_path / "cache")
    assert "model" not in vars(model.fixed.encoder)

    torch.manual_seed(0)
    torch.nn.init.normal_(model.intent_head.weight)
    place = tmp_path / "exported"
    place.mkdir()
    save_file(dict(model.state_dict()), str(place / "weights.safetensors"))
    about = {
        "model": config.model_dump(mode="json"),
        "intents": corpus.schema.intents,
        "slots": corpus.schema.slots,
        "schema_source": corpus.schema.source,
    }
    (place / "model.json").write_text(json.dumps(about))
    model.save_public(place)
    assert write_encoder(place) == place / "encoder"
    assert (place / "encoder" / "moments.safetensors").is_file()
    found = saved.load(place)
    words = [saved.unlabelled(["call", "ann"])]
    ours = saved.SavedModel(model=model.eval(), config=config, schema=corpus.schema).read(words)
    np.testing.assert_allclose(found.read(words).features, ours.features, rtol=1e-5)
    assert "RoBERTa, 3 layers of width 24, licence apache-2.0" in found.model.provenance


def test_a_model_is_not_loaded_with_another_encoder(tmp_path: Path) -> None:
    hub, place = tmp_path / "hub", tmp_path / "model"
    family_folders.write(hub, "roberta")
    config = model_part(name="features", encoder=str(hub), prior="none")
    place.mkdir()
    save_file(
        dict(build(config, schema=SCHEMA, seed=0).state_dict()), str(place / "weights.safetensors")
    )
    about = {
        "model": config.model_dump(mode="json"),
        "intents": SCHEMA.intents,
        "slots": SCHEMA.slots,
        "schema_source": SCHEMA.source,
        "encoder_digest": encoder_digest(str(hub)),
    }
    (place / "model.json").write_text(json.dumps(about))
    saved.load(place)
    (hub / "config.json").write_text((hub / "config.json").read_text() + " ")
    for load in (saved.load, write_encoder):
        with pytest.raises(InvalidInput, match=r"expected model\.encoder=.* got another \("):
            load(place)
    assert sorted(path.name for path in place.iterdir()) == ["model.json", "weights.safetensors"]

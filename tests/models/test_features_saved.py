"""Heads that were saved and exported are read back with the encoder in their folder
alone.
"""

import numpy as np
import torch

from sweep.results.export_encoder import write_encoder
from tests.encoders import family_folders
from tests.models._builds import made_corpus, save_model
from trainables import saved
from trainables.config.trial import data_config, model_part
from trainables.data.corpus import open_corpus
from trainables.models.nlu import features
from trainables.system.communication import Alone
from trainables.tasks._inference import infer


def test_a_saved_model_predicts_what_was_measured(tmp_path):
    """It computes the rows that a trial reads from its cache."""
    data = data_config(name="health", num_utterances=1_000, max_records=200)
    corpus = open_corpus(data, data_dir=tmp_path, cache_dir=tmp_path)
    config = model_part(name="features")
    model = config.build(schema=corpus.schema, seed=0)
    torch.manual_seed(0)
    for head in (model.intent_head, model.tag_head):
        torch.nn.init.normal_(head.weight, std=3.0)
    ids = np.arange(len(corpus))
    measured = infer(model, model.loader(corpus, cache_dir=tmp_path), ids, comm=Alone())
    own = saved.SavedModel(model=model, config=config, schema=corpus.schema)
    said = own.read(map(saved.unlabelled, corpus.token_sequences(ids)))
    np.testing.assert_array_equal(said.intents, measured.intents)
    np.testing.assert_array_equal(
        np.concatenate(said.tags), np.concatenate(measured.tags)
    )
    np.testing.assert_allclose(said.features, measured.features, atol=1e-4)


def test_an_exported_folder_is_enough(tmp_path):
    """Public moments too. Both are computed once: an encoder is then not even
    loaded.
    """
    family_folders.write(tmp_path / "hub", "roberta")
    config = model_part(name="features", encoder=str(tmp_path / "hub"), prior="none")
    cache = tmp_path / "cache"
    corpus = made_corpus(cache)
    config.build(schema=corpus.schema, seed=0).loader(corpus, cache_dir=cache)
    features._encoder.cache_clear()  # another process
    model = config.build(schema=corpus.schema, seed=0)
    model.loader(corpus, cache_dir=cache)
    assert (model.fixed[0].token_width, model.fixed[0].layers) == (48 + 2 * 24, (2, 3))
    assert "roberta, 3 layers of width 24, licence apache-2.0" in model.provenance
    torch.manual_seed(0)
    torch.nn.init.normal_(model.intent_head.weight)
    place = save_model(tmp_path / "exported", model, config, schema=corpus.schema)
    model.save_public(place)
    assert "model" not in vars(model.fixed[0].encoder)
    assert write_encoder(place) == place / "encoder"
    assert (place / "encoder" / "moments.safetensors").is_file()
    found = saved.load(place)
    assert found.config.encoder == str(place / "encoder")
    words = [saved.unlabelled(["call", "ann"])]
    ours = saved.SavedModel(
        model=model.eval(), config=config, schema=corpus.schema
    ).read(words)
    np.testing.assert_allclose(found.read(words).features, ours.features, rtol=1e-5)

"""A model that starts from a public encoder: its weights, its name, and what it may be used on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from sweep.results.export_encoder import write_encoder
from tests.models._builds import SCHEMA, TYPES
from trainables import catalogue
from trainables.config import data_config, model_part, parse
from trainables.encoders import folder
from trainables.encoders.about import read_about, write_about
from trainables.errors import InvalidData, InvalidInput
from trainables.models._nlu import NluModel
from trainables.saved import load


def built(**fields: Any) -> NluModel:
    chosen = model_part(**fields)
    made: NluModel = catalogue.entry("models", chosen.name).build(chosen, schema=SCHEMA, seed=0)
    return made


def test_a_clc_has_the_weights_of_the_encoder_and_heads_of_its_own() -> None:
    found = folder.read("small")
    model = built(name="clc", encoder="small")
    assert found.weights is not None
    state = model.state_dict()
    for name, value in found.weights.items():
        assert torch.equal(state[name], value.float()), name
    assert model.intent_head.out_features == len(SCHEMA.intents)
    assert "public encoder small, pretrained on" in model.provenance
    assert all(corpus in model.provenance for corpus in read_about("small").corpora)
    model.feature_table(TYPES)


def test_a_part_of_it_is_trained() -> None:
    model = built(name="clc", encoder="small", trained="biases", top_layers=1)
    moving = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name for name in moving if "head" not in name and "crf" not in name} == {
        "layers.1.bias"
    }
    assert "trained: heads, biases and norms of the top 1 layers" in model.provenance


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "clc", "encoder": "nowhere"}, "model.encoder to be one of small, .* 'nowhere'"),
        ({"name": "clc", "encoder": "small", "trained": "biases", "top_layers": 3},
         "model.top_layers <= 2, the layers of small, got 3"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        built(**fields)


def test_a_damaged_encoder_is_told(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    shutil.copytree(read_about("small").place, place)
    save_file({"nothing": torch.zeros(1)}, str(place / folder.WEIGHTS))
    with pytest.raises(InvalidData, match=r"fit its encoder\.json|damaged"):
        built(name="clc", encoder=str(place))


@pytest.mark.parametrize("name", ["clc", "bert"])
def test_an_encoder_that_learnt_from_the_corpus_is_refused(name: str, tmp_path: Path) -> None:
    about = read_about("small")
    card = {**about.card, "corpora": [{"name": "snips"}]}
    write_about(tmp_path, model={**about.model, "name": name}, card=card)
    module = catalogue.entry("models", name)
    chosen = model_part(name=name, encoder=str(tmp_path))
    with pytest.raises(InvalidInput, match="it has learnt from the records themselves"):
        module.require_usable(chosen, data_config(name="snips"))
    module.require_usable(chosen, data_config(name="atis"))
    module.require_usable(model_part(name=name), data_config(name="snips"))


def test_sizes_are_the_encoder_s_and_the_default_is_no_part_of_an_id() -> None:
    usual = parse({"model": {"name": "clc"}})
    assert usual.id == parse({"model": {"name": "clc", "encoder": "scratch"}}).id
    of_small = parse({"model": {"name": "clc", "encoder": "small", "hidden_size": 7}})
    assert of_small == parse({"model": {"name": "clc", "encoder": "small"}})
    assert of_small.id != usual.id


def test_an_export_has_the_encoder_that_it_starts_from(tmp_path: Path) -> None:
    """So it is read where no such encoder is installed."""
    model = built(name="clc", encoder="small", trained="heads")
    place = tmp_path / "model"
    place.mkdir()
    save_file({n: t.contiguous().clone() for n, t in model.state_dict().items()},
              str(place / "weights.safetensors"))  # fmt: skip
    fields = model_part(name="clc", encoder="small", trained="heads").model_dump(mode="json")
    about = {"model": fields, "intents": SCHEMA.intents, "slots": SCHEMA.slots}
    about |= {"schema_source": SCHEMA.source, "provenance": ""}
    (place / "model.json").write_text(json.dumps(about), encoding="utf-8")
    assert write_encoder(place) == place / "encoder"
    said = load(tmp_path)
    assert getattr(said.config, "encoder", "") == str(place / "encoder")
    for one, other in zip(said.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)

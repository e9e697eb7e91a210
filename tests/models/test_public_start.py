"""A model that starts from a public encoder: weights, name, and allowed corpora."""

import json

import pytest
import torch
from safetensors.torch import save_file

from sweep.results.export_encoder import write_encoder
from tests.models._builds import SCHEMA, TYPES, built, save_model
from tests.refusals import refused
from trainables import catalogue
from trainables.config import data_config, model_part, parse
from trainables.encoders import source as folder
from trainables.encoders.about import read_about, write_about
from trainables.errors import InvalidData, InvalidInput
from trainables.saved import load

SIZES = {"hidden_size": 8, "char_filters": 5, "word_buckets": 30, "word_dim": 6}


@pytest.fixture
def mine(tmp_path):
    """The folder of a small CLC that has learnt from two corpora."""
    place = tmp_path / "mine"
    place.mkdir()
    model = built(name="clc", **SIZES)
    torch.manual_seed(7)
    kept = {}
    for name, value in model.state_dict().items():
        if not name.startswith(("intent_head", "tag_head", "crf")):
            kept[name] = torch.randn_like(value)
    save_file(kept, str(place / folder.WEIGHTS))
    card = {"name": "mine", "corpora": [{"name": "health"}, {"name": "video"}]}
    write_about(place, model={"name": "clc", **SIZES}, card=card, layers=(0, 1, 2))
    return place


def test_a_clc_has_the_weights_of_the_encoder_and_heads_of_its_own(mine):
    found = folder.read(str(mine))
    model = built(name="clc", encoder=str(mine))
    assert found.weights
    state = model.state_dict()
    for name, value in found.weights.items():
        assert torch.equal(state[name], value), name
    assert model.intent_head.out_features == len(SCHEMA.intents)
    assert model.provenance.startswith(
        "starts from the public encoder mine, pretrained on health, video;"
    )
    model.feature_table(TYPES)


@pytest.mark.parametrize("name", ["clc", "features"])
@pytest.mark.parametrize("of_other_sizes", [True, False])
def test_weights_that_the_description_does_not_name_are_refused(mine, name, of_other_sizes):
    if of_other_sizes:
        about = json.loads((mine / "encoder.json").read_text())
        about["model"]["hidden_size"] = 9
        (mine / "encoder.json").write_text(json.dumps(about))
    else:
        save_file({"nothing": torch.zeros(1)}, str(mine / folder.WEIGHTS))
    with refused(r"that fit its encoder\.json", InvalidData):
        built(name=name, encoder=str(mine))


def test_a_bert_has_the_weights_of_the_one_that_ships():
    model = built(name="bert", encoder="dialogues", num_layers=2, trained="lora", lora_rank=2)
    plain = built(name="bert", encoder="dialogues", num_layers=2)
    state = plain.state_dict()
    same = {name.replace(".base", ""): value for name, value in model.state_dict().items()}
    assert all(torch.equal(same[name], state[name]) for name in state)
    assert "public encoder dialogues, pretrained on" in plain.provenance
    assert all(corpus in plain.provenance for corpus in read_about("dialogues").corpora)


def test_a_part_of_it_is_trained(mine):
    model = built(name="clc", encoder=str(mine), trained="biases", top_layers=1)
    moving = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name for name in moving if "head" not in name and "crf" not in name} == {
        "layers.1.bias"
    }
    assert "trained: heads, biases and norms of the top 1 layers" in model.provenance


def test_adapters_of_a_clc_lie_on_the_weights_that_are_loaded(mine):
    model = built(name="clc", encoder=str(mine), trained="lora", lora_rank=2, top_layers=1)
    state = built(name="clc", encoder=str(mine)).state_dict()
    same = {name.replace(".base", ""): value for name, value in model.state_dict().items()}
    assert all(torch.equal(same[name], state[name]) for name in state)
    moving = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name.rpartition(".")[0][:9] for name in moving if "layers" in name} == {"layers.1."}
    assert "trained: heads and adapters of the top 1 layers" in model.provenance


def test_what_is_not_there_is_refused(mine):
    with refused(r"model\.encoder to be one of dialogues, .* 'nowhere'"):
        built(name="clc", encoder="nowhere")
    with refused(r"a clc with model\.name=clc, got dialogues, a bert"):
        built(name="clc", encoder="dialogues")
    with refused(r"top_layers <= 2, the layers of .*, got 3"):
        built(name="clc", encoder=str(mine), trained="biases", top_layers=3)
    with refused(r"1 <= model\.lora_rank <= \d+, the width of the enc"):
        built(name="clc", encoder=str(mine), trained="lora", lora_rank=999)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("hidden_size", -3, "hidden_size: input should be greater than or equal to 2, got -3"),
        ("nonsense", 3, "nonsense"),
        ("encoder", ".", r"read only with (model\.)?encoder=scratch"),
    ],
)
def test_a_damaged_description_is_one_line(mine, field, value, said):
    about = json.loads((mine / "encoder.json").read_text())
    about["model"][field] = value
    (mine / "encoder.json").write_text(json.dumps(about))
    for name in ("clc", "features"):
        with pytest.raises((InvalidInput, InvalidData), match=said) as problem:
            built(name=name, encoder=str(mine))
        assert "\n" not in str(problem.value)


@pytest.mark.parametrize("name", ["clc", "bert"])
def test_an_encoder_that_learnt_from_the_corpus_is_refused(name, tmp_path):
    card = {"name": "mine", "corpora": [{"name": "snips"}]}
    write_about(tmp_path, model={"name": name}, card=card, layers=(0,))
    module = catalogue.entry("models", name)
    chosen = model_part(name=name, encoder=str(tmp_path))
    with refused("it was trained on these records"):
        module.require_usable(chosen, data_config(name="snips"))
    # Of another corpus it is the files that count.
    with refused(r"weights\.safetensors|a tokenizer of its own"):
        module.require_usable(chosen, data_config(name="atis"))
    module.require_usable(model_part(name=name), data_config(name="snips"))


def usable(**fields):
    chosen = model_part(**fields)
    catalogue.entry("models", chosen.name).require_usable(chosen, data_config(name="atis"))


def test_what_an_encoder_lacks_is_refused_before_a_trial(mine):
    """Without reading its weights, so that a plan can say it."""
    usable(name="clc", encoder=str(mine))
    usable(name="bert", encoder="dialogues", num_layers=2)
    usable(name="features", layers=(2,))
    with refused(r"a clc with model\.name=clc, got dialogues, a bert"):
        usable(name="clc", encoder="dialogues")
    with refused(r"a bert with model\.name=bert, got .*, a clc"):
        usable(name="bert", encoder=str(mine))
    with refused(r"num_layers <= 6 with model\.encoder=dialogues, got 7"):
        usable(name="bert", encoder="dialogues", num_layers=7)
    with refused(r"layers among \[2, 4, 6\] .*encoder=dialogues, got \[0\]"):
        usable(name="features", layers=(0,))
    with refused(r"moments\.safetensors in the folder .* got none", InvalidData):
        usable(name="features", encoder=str(mine))
    (mine / folder.WEIGHTS).unlink()
    with refused(r"weights\.safetensors in the folder .* got none", InvalidData):
        usable(name="clc", encoder=str(mine))


def test_sizes_are_the_encoder_s_and_the_default_is_no_part_of_an_id():
    usual = parse({"model": {"name": "clc"}})
    assert usual.id == parse({"model": {"name": "clc", "encoder": "scratch"}}).id
    of_shipped = {"name": "clc", "encoder": "dialogues"}
    assert parse({"model": of_shipped}).id != usual.id
    with refused(r"^expected no model\.hidden_size, which is read only"):
        parse({"model": {**of_shipped, "hidden_size": 7}})


@pytest.mark.parametrize("part", [{"trained": "heads"}, {"trained": "lora", "lora_rank": 2}])
def test_an_export_has_the_encoder_that_it_starts_from(mine, part, tmp_path):
    """So it is read where no such encoder is installed; what else lies beside it stays."""
    model = built(name="clc", encoder=str(mine), **part)
    config = model_part(name="clc", encoder=str(mine), **part)
    place = save_model(tmp_path / "export" / "model", model, config, provenance="")
    (mine / "notes.txt").write_text("book a table for ann at nine")
    (mine / "more").mkdir()
    assert write_encoder(place) == place / "encoder"
    left = {file.name for file in (place / "encoder").iterdir()}
    assert left == {file.name for file in mine.iterdir()} - {"notes.txt", "more"}
    said = load(tmp_path / "export")
    assert getattr(said.config, "encoder", "") == str(place / "encoder")
    for one, other in zip(said.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)

"""The trained part of an encoder: exactly the named weights, without cost for the others."""

import pytest
import torch
from torch import nn

from tests.models._builds import (
    PARTLY,
    assert_sum_is_the_definitions,
    build_model,
    built,
    random_batch,
)
from tests.refusals import refused
from tests.tasks.test_nlu_trial import config, place, run
from trainables.config import parse
from trainables.errors import TrialFailed
from trainables.layers.tape import Tape
from trainables.models._clc import Clc
from trainables.models._lora import LowRank, merge
from trainables.system.communication import Alone
from trainables.tasks._setup import prepare

__all__ = ["place"]

HEADS = {"intent_head.weight", "intent_head.bias", "tag_head.weight", "tag_head.bias"}
HEADS |= {"crf.transitions", "crf.start_transitions", "crf.end_transitions"}
_LINEAR = ("qkv", "attention_out", "inner", "outer")
_NORMS = ("attention_norm", "norm")
_OF_BERT = [
    *(f"{name}.bias" for name in (*_LINEAR, *_NORMS)),
    *(f"{name}.weight" for name in _NORMS),
]
EXPECTED = {
    "clc, heads": HEADS,
    "clc, biases of the top layer": HEADS | {"layers.1.bias"},
    "clc, adapters": HEADS
    | {
        f"layers.{n}.{name}.{way}.{part}.weight"
        for n in (0, 1)
        for name in ("input", "recurrent")
        for way in (0, 1)
        for part in ("down", "up")
    },
    "bert, heads": HEADS,
    "bert, biases": HEADS | {f"layers.{n}.{name}" for n in (0, 1) for name in _OF_BERT},
    "bert, adapters of the top layer": HEADS
    | {f"layers.1.{name}.{part}.weight" for name in _LINEAR for part in ("down", "up")},
}


def names(model):
    return {name for name, p in model.named_parameters() if p.requires_grad}


def taken_down(model, monkeypatch):
    """What one private step leaves on the tape; a bound that clips about half of its records."""
    seen = []
    right = Tape.receive

    def receive(self, entry):
        right(self, entry)
        seen.append(entry)

    monkeypatch.setattr(Tape, "receive", receive)
    assert_sum_is_the_definitions(model, random_batch(model, 4, seed=0))
    return seen


@pytest.mark.parametrize("name", PARTLY)
def test_these_weights_are_trained_and_no_others(name):
    model = build_model(name)
    assert names(model) == EXPECTED[name]


@pytest.mark.parametrize("name", PARTLY)
def test_what_is_frozen_leaves_no_tape(name, monkeypatch):
    """One entry a layer with trained weights; none below, where there is no backward pass."""
    model = build_model(name, dropout=0.0)
    entries = taken_down(model, monkeypatch)
    owners = {place.rpartition(".")[0] for place in EXPECTED[name]}
    assert len(entries) == len(owners)
    places = {id(p): place for place, p in model.named_parameters()}
    assert {places[id(p)] for entry in entries for p in entry.parameters} == EXPECTED[name]


def test_without_a_choice_all_is_trained():
    for name in ("clc", "bert"):
        assert names(build_model(name)) == {n for n, _ in build_model(name).named_parameters()}


def without_adapters(name):
    """The same model with all of it trained, which has no adapters."""
    bare = {**PARTLY[name], "trained": "all", "dropout": 0.0}
    return built(**{k: v for k, v in bare.items() if k not in ("lora_rank", "top_layers")})


def leave_the_start(model):
    torch.manual_seed(0)
    for layer in model.modules():
        if isinstance(layer, LowRank):
            nn.init.normal_(layer.up.weight, std=0.1)


@pytest.mark.parametrize("name", [name for name in PARTLY if "adapters" in name])
def test_adapters_begin_as_the_model_without_them_and_merge_into_it(name):
    plain, model = without_adapters(name), build_model(name, dropout=0.0)
    batch = random_batch(model, 6, seed=2)
    torch.testing.assert_close(model.losses(batch), plain.losses(batch))
    leave_the_start(model)
    apart = (model.losses(batch) - plain.losses(batch)).detach().abs()
    assert float(apart.min()) > 1e-4
    if isinstance(model, Clc):
        merge_clc(model, plain)
    else:
        scale = next(layer.scale for layer in model.modules() if isinstance(layer, LowRank))
        plain.load_state_dict(merge(model.state_dict(), scale=scale))
    torch.testing.assert_close(model.losses(batch), plain.losses(batch), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def merge_clc(model, plain):
    """W + (alpha / rank) B A into each map of the layers, alpha being 16 and the rank 2."""
    state = model.state_dict()
    for number, layer in enumerate(plain.layers):  # a ModuleList
        for name, weight in (("input", layer.weight_ih), ("recurrent", layer.weight_hh)):
            for way in (0, 1):
                place = f"layers.{number}.{name}.{way}"
                weight[way] += 8 * state[f"{place}.up.weight"] @ state[f"{place}.down.weight"]


def test_a_state_without_adapters_is_merged_already():
    state = build_model("bert").state_dict()
    same = merge(state, scale=2.0)
    assert list(same) == list(state)
    assert all(torch.equal(same[name], value) for name, value in state.items())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "bert", "trained": "lora", "lora_rank": 0}, "model.lora_rank: .* 1, got 0"),
        ({"name": "bert", "trained": "biases", "top_layers": 5}, "top_layers <= .*=4, got 5"),
        ({"name": "clc", "trained": "biases", "top_layers": 3}, "top_layers <= .*=2, got 3"),
        ({"name": "clc", "trained": "biases", "top_layers": 0}, "model.top_layers: .* 1, got 0"),
        ({"name": "clc", "trained": "norms"}, "model.trained: .* 'lora', got 'norms'"),
        ({"name": "clc", "trained": "lora", "lora_rank": 0}, "model.lora_rank: .* 1, got 0"),
        ({"name": "clc", "trained": "lora", "hidden_size": 24, "lora_rank": 25},
         "1 <= model.lora_rank <= 24, the width of the encoder, got 25"),
        ({"name": "clc", "trained": "lora", "top_layers": 3}, "top_layers <= .*=2, got 3"),
        ({"name": "bert", "trained": "lora", "hidden_size": 24, "num_heads": 2, "lora_rank": 25},
         "1 <= model.lora_rank <= 24, the width of the encoder, got 25"),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_refused_in_one_line(fields, said):
    with refused(said):
        built(**fields)


def test_the_rank_is_read_with_adapters_alone():
    with refused(r"^expected no model\.lora_rank, which is read only wi"):
        parse({"model": {"name": "bert", "trained": "all", "lora_rank": 3}})


def test_a_rank_that_cannot_be_is_refused_before_anything_is_built():
    """Of a loaded encoder, and of a file's word vectors, the width is known when it is read."""
    narrow = {"name": "clc", "hidden_size": 24, "trained": "lora", "lora_rank": 8}
    narrow |= {"num_layers": 2, "word_dim": 3, "char_filters": 4}
    with refused(r"1 <= model\.lora_rank <= 7, .*, got"):
        parse({"model": narrow})
    assert parse({"model": {**narrow, "top_layers": 1}}).model.lora_rank == 8


def of_part(engine, trained, **training):
    fields = config(engine, training={"epochs": 2, **training}).model_dump(mode="json")
    fields["model"] |= {"trained": trained}
    return parse(fields)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(str(folder / "model" / "weights.safetensors"))


@pytest.mark.parametrize(
    ("engine", "trained"),
    [
        *(("sgd", "biases"), ("dp_sgd", "biases")),
        *(("sgd", "lora"), ("edp_sgd", "lora"), ("dp_sgd", "lora")),
    ],
)
def test_a_trial_moves_what_is_trained_and_nothing_else(engine, trained, place, tmp_path):
    chosen = of_part(engine, trained)
    result, _ = run(place, tmp_path, chosen)
    assert result.epochs_done == 2
    what = {"biases": "heads, biases and norms", "lora": "heads and adapters"}[trained]
    assert f"trained: {what}" in str(result.privacy.provenance)
    begin = prepare(chosen, comm=Alone(), data_dir=place, cache_dir=place / "cache").model
    moved = weights(tmp_path)
    for name, p in begin.named_parameters():
        assert torch.equal(moved[name], p.detach()) != p.requires_grad, name


@pytest.mark.parametrize("trained", ["biases", "lora"])
def test_a_trial_fails_where_what_is_trained_never_moved(trained, place, tmp_path):
    """Steps of 1e-30 are none in float32, but for weights that begin at 0."""
    said = rf"model\.trained={trained} to change every trained weight"
    with refused(said, TrialFailed):
        run(place, tmp_path, of_part("sgd", trained, learning_rate=1e-30))


def test_the_provenance_names_what_was_trained():
    top = " of the top 1 layers"
    said = {name: build_model(name).provenance.partition("; trained: ")[2] for name in PARTLY}
    assert said == {
        "clc, heads": "heads",
        "clc, biases of the top layer": f"heads, biases and norms{top}",
        "clc, adapters": "heads and adapters",
        "bert, heads": "heads",
        "bert, biases": "heads, biases and norms",
        "bert, adapters of the top layer": f"heads and adapters{top}",
    }


def test_an_adapter_starts_as_wide_as_its_input_asks():
    torch.manual_seed(0)
    adapter = LowRank(width=400, out=300, rank=50, alpha=16.0)
    assert adapter.down.weight.std().item() == pytest.approx(400**-0.5, rel=0.02)

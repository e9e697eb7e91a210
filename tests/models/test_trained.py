"""The trained part of a BERT: exactly the named weights, without cost for the
others.
"""

import pytest
import torch
from safetensors.torch import load_file

from tests.models._builds import (
    PARTLY,
    assert_sum_is_the_definitions,
    build_model,
    random_batch,
)
from tests.refusals import refused
from tests.tasks.test_nlu_trial import BERT, config, place, run
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.recorder import Recorder
from trainables.errors import TrialFailed
from trainables.models.encoders.adapters import Adapted
from trainables.system.communication import Alone
from trainables.tasks._setup import prepare

__all__ = ["place"]

_NAMES = [
    *(f"{name}.bias" for name in ("qkv", "attention_out", "inner", "outer")),
    *(f"{n}.{part}" for n in ("attention_norm", "norm") for part in ("bias", "weight")),
]
EXPECTED = {
    *("intent_head.weight", "intent_head.bias", "tag_head.weight", "tag_head.bias"),
    *("crf.transitions", "crf.start_transitions", "crf.end_transitions"),
    *(f"layers.{n}.{name}" for n in (0, 1) for name in _NAMES),
}


def names(model):
    return {name for name, p in model.named_parameters() if p.requires_grad}


def taken_down(model, monkeypatch):
    """What one private step leaves on the tape; a bound that clips about half of its
    records.
    """
    seen = []
    right = Recorder.receive

    def receive(self, entry):
        right(self, entry)
        seen.append(entry)

    monkeypatch.setattr(Recorder, "receive", receive)
    assert_sum_is_the_definitions(model, random_batch(model, 4, seed=0))
    return seen


@pytest.mark.parametrize("name", PARTLY)
def test_these_weights_are_trained_and_leave_the_only_tape(name, monkeypatch):
    """One entry a layer with trained weights; none below, where there is no backward
    pass.
    """
    model = build_model(name, dropout=0.0)
    assert names(model) == EXPECTED
    entries = taken_down(model, monkeypatch)
    assert len(entries) == len({place.rpartition(".")[0] for place in EXPECTED})
    places = {id(p): place for place, p in model.named_parameters()}
    assert {places[id(p)] for entry in entries for p in entry.parameters} == EXPECTED


def test_without_a_choice_all_is_trained():
    for name in ("clc", "bert"):
        assert names(build_model(name)) == {
            n for n, _ in build_model(name).named_parameters()
        }


def of_biases(engine, **training):
    return config(
        engine, training={"epochs": 2, **training}, model={**BERT, "trained": "biases"}
    )


@pytest.mark.parametrize("engine", ["sgd", "edp_sgd", "dp_sgd"])
def test_a_trial_moves_what_is_trained_and_nothing_else(engine, place, tmp_path):
    chosen = of_biases(engine)
    result, _ = run(place, tmp_path, chosen)
    assert result.epochs_done == 2
    assert "trained: heads, biases and norms" in str(result.privacy.provenance)
    begin = prepare(
        chosen, comm=Alone(), data_dir=place, cache_dir=place / "cache"
    ).model
    moved = load_file(tmp_path / "model" / "weights.safetensors")
    for name, p in begin.named_parameters():
        assert torch.equal(moved[name], p.detach()) != p.requires_grad, name


def test_a_trial_fails_where_what_is_trained_never_moved(place, tmp_path):
    """Steps of 1e-30 are none in float32, but for weights that begin at 0."""
    with refused(
        "training of model.name=bert to change every trained weight", TrialFailed
    ):
        run(place, tmp_path, of_biases("sgd", learning_rate=1e-30))


def test_an_adapter_starts_as_wide_as_its_input_asks():
    torch.manual_seed(0)
    adapter = Adapted(Linear(400, 300), rank=50, alpha=16.0)
    assert adapter.down.weight.std().item() == pytest.approx(400**-0.5, rel=0.02)

"""Whole trials of heads on the encoder that ships; at epsilon 0 they predict from names
alone.
"""

import shutil
from unittest.mock import Mock

import pytest
import torch

from tests.fixed_keys import fixed_keys
from tests.trials import run_alone
from trainables import saved_predictions
from trainables.config.trial import parse
from trainables.data.split import Split
from trainables.models.encoders.named_files import ENCODER, files_digest
from trainables.models.nlu import features
from trainables.system import checkpoint
from trainables.system.communication import Alone
from trainables.tasks import _setup

FIELDS = {
    "engine": "dp_sgd",
    "data": {"name": "communication", "num_utterances": 1_000},
    "model": {"name": "features", "encoder": "dialogues"},
    "privacy": {
        "sampling": "full",
        "max_grad_norm": 0.5,
        "noise_multiplier": {"target_epsilon": 8},
        "delta": 1e-5,
    },
    "training": {
        "steps": 20,
        "evaluate_every": 20,
        "optimizer": "momentum",
        "learning_rate": {"total_noise": 0.47},
        "learning_rate_decay": "linear",
    },
    "evaluation": {"attacks": []},
}


PRIOR = {"engine": "untrained", **{name: FIELDS[name] for name in ("data", "model")}}


def trial(folder, cache, fields=FIELDS):
    return run_alone(parse(fields), folder, cache=cache)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, cache):
    place = tmp_path_factory.mktemp("heads")
    with fixed_keys():
        return trial(place, cache), place


def test_few_private_steps_improve_on_what_the_names_say(trained):
    """And the checkpoint names the encoder by its files."""
    found, place = trained
    assert (
        checkpoint.state_of(place)[ENCODER]
        == files_digest({"encoder": "dialogues"})
        != ""
    )
    metrics = found.metrics
    assert metrics["ser"] < 0.5 * metrics["ser_before_training"]
    assert 7.84 <= metrics["epsilon"] <= 8
    public = " / ".join(found.privacy.public)
    for what in (
        "labels' names",
        "for whitening, over utterances",
        "took 1 out of its pretrain",
    ):
        assert what in public


def test_without_names_nothing_is_known_before(tmp_path, cache):
    model = {**FIELDS["model"], "prior": "none"}
    changes = {
        "data": {**FIELDS["data"], "max_records": 200},
        "training": {**FIELDS["training"], "steps": 1, "evaluate_every": 1},
    }
    found = trial(tmp_path, cache, {**FIELDS, "model": model, **changes})
    assert "ser_before_training" not in found.metrics
    assert not any("labels' names" in what for what in found.privacy.public)


def test_epsilon_0_is_the_error_that_a_trained_trial_begins_with(
    tmp_path, cache, trained
):
    found = trial(tmp_path, cache, PRIOR)
    assert found.metrics["ser"] == trained[0].metrics["ser_before_training"]
    assert "ser_before_training" not in found.metrics
    assert (found.metrics["epsilon"], found.metrics["epsilon_replace_one"]) == (
        0.0,
        0.0,
    )
    assert not [name for name in found.metrics if name.startswith("mia_")]
    assert any("no attack" in note for note in found.notes)
    assert "No record was trained on" in found.privacy.guarantee
    assert "Epsilon is 0" in found.privacy.guarantee
    assert found.privacy.randomness == ("nothing was drawn",)
    assert (found.privacy.epsilon, found.privacy.attacks) == (0.0, ())
    assert found.privacy.step_audit is None


def test_no_training_record_reaches_what_epsilon_0_leaves(tmp_path, cache, monkeypatch):
    """With other training records, and with almost none, the weights are the same
    bytes.
    """
    make, seen = _setup.split_of, []

    def other(*args, **named):
        split = make(*args, **named)
        seen.append(len(split.train))
        return Split(split.train[:3], split.validation, split.test)

    whole = trial(tmp_path / "whole", cache, PRIOR)
    monkeypatch.setattr(_setup, "split_of", other)
    few = trial(tmp_path / "few", cache, PRIOR)
    assert seen[0] > 3
    weights = [
        file.read_bytes() for file in tmp_path.glob("*/model/weights.safetensors")
    ]
    assert weights == 2 * weights[:1]
    assert whole.metrics["ser"] == few.metrics["ser"]


def test_the_error_before_training_is_found_once(tmp_path, cache, trained):
    """A trial that is taken up again reads it: by then it may have other weights at
    hand.
    """
    first, place = trained
    folder = shutil.copytree(place, tmp_path / "again")
    assert saved_predictions.read_before(folder) == first.metrics["ser_before_training"]
    saved_predictions.write_before(folder, 0.125)
    assert trial(folder, cache).metrics["ser_before_training"] == 0.125
    (folder / saved_predictions.BEFORE).write_text("{")
    assert saved_predictions.read_before(folder) is None


def test_a_full_batch_that_does_not_fit_is_passed_in_parts(
    tmp_path, cache, monkeypatch
):
    """A step's memory has a bound whatever the number of records, and its release is
    the same.
    """
    privacy = {**FIELDS["privacy"], "noise_multiplier": 1.0, "reproducible_noise": True}
    released, sizes = [], []
    for kept, at_once in ((1 << 30, 1 << 28), (0, 1 << 17)):
        monkeypatch.setattr(features, "_KEPT_BYTES", kept)
        monkeypatch.setattr(features, "_PASS_BYTES", at_once)
        setup = _setup.prepare(
            parse({**FIELDS, "privacy": privacy}),
            comm=Alone(),
            data_dir=tmp_path,
            cache_dir=cache,
        )
        read = Mock(wraps=setup.engine._loader)
        monkeypatch.setattr(setup.engine, "_loader", read)
        monkeypatch.setattr(
            setup.engine, "_compares", False
        )  # which reads a few once more
        setup.engine.step(0, 0)
        released.append(setup.engine.released.clone())
        sizes.append([len(call.args[0]) for call in read.batch.call_args_list])
    number = setup.mechanism.num_records
    assert sizes[0] == [number]
    assert len(sizes[1]) > 3
    assert sum(sizes[1]) == number
    assert torch.allclose(released[0], released[1], rtol=1e-4, atol=1e-4)
